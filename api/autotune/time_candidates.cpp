//===- api/autotune/time_candidates.cpp - times the best few, and the best of these again -----===//

#include "api/autotune/time_candidates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One choice.
class Contest {
public:
  Contest(const std::vector<PredictedCandidate> &predictedCandidates, const TimingLimits &limits,
          const TimingActions &actions)
      : predicted_(predictedCandidates), order_(predictedCandidates, limits.window, limits.least),
        limits_(limits), actions_(actions) {}

  Result<CandidateTimes> run();

private:
  Result<bool> goesOn(size_t done, size_t least, size_t most, double start, double limit) const;
  Status look();
  Status timeRound(size_t survivors);
  void rank(size_t survivors);
  Status playRounds();

  const std::vector<PredictedCandidate> &predicted_;
  FirstTrials order_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  CandidateTimes result_;
  std::map<size_t, std::vector<double>> turns_; ///< of each candidate, in microseconds
};

/// Asks for the time only where that decides.
Result<bool> Contest::goesOn(size_t done, size_t least, size_t most, double start,
                             double limit) const {
  if (done < least || done >= most)
    return done < most;
  Result<double> now = actions_.seconds();
  if (!now)
    return now.status();
  return *now - start < limit;
}

Status Contest::look() {
  Result<double> start = actions_.seconds();
  if (!start)
    return start.status();
  while (std::optional<size_t> candidate = order_.next()) {
    Result<bool> isTime =
        goesOn(result_.times.size(), limits_.least, limits_.most, *start, limits_.lookSeconds);
    if (!isTime)
      return isTime.status();
    if (!*isTime)
      break;
    Result<double> us = actions_.look(*candidate);
    if (!us)
      return us.status();
    result_.times.push_back({*candidate, *us, predicted_[*candidate].worstCase});
    order_.add(*candidate, std::max(*us, 1e-3)); // no clock is finer
  }
  sortByTime(result_.times);
  return Status::ok();
}

/// A turn for each of the first `survivors` of the times. Every other round goes backwards, so that
/// nobody always comes after the same one.
Status Contest::timeRound(size_t survivors) {
  for (size_t i = 0; i < survivors; ++i) {
    const size_t place = result_.finalRounds.rounds % 2 == 0 ? i : survivors - 1 - i;
    const size_t candidate = result_.times[place].candidate;
    Result<double> us = actions_.again(candidate);
    if (!us)
      return us.status();
    turns_[candidate].push_back(*us);
  }
  ++result_.finalRounds.rounds;
  return Status::ok();
}

/// Puts the first `survivors` of the times in order, by their turns so far.
void Contest::rank(size_t survivors) {
  auto first = llvm::MutableArrayRef<CandidateTime>(result_.times).take_front(survivors);
  for (CandidateTime &each : first)
    each.us = median(turns_[each.candidate]);
  sortByTime(first);
}

Status Contest::playRounds() {
  const size_t survivors = survivorsOf(result_.times);
  if (survivors < 2)
    return Status::ok();
  Result<double> start = actions_.seconds();
  if (!start)
    return start.status();
  if (Status status = timeRound(survivors); !status.isOk())
    return status;
  rank(survivors);
  result_.finalRounds.survivors = survivors;
  result_.finalRounds.finalists = std::min(survivors, kFinalists);
  while (true) {
    Result<bool> isTime = goesOn(result_.finalRounds.rounds, limits_.leastRounds,
                                 limits_.mostRounds, *start, limits_.finalSeconds);
    if (!isTime)
      return isTime.status();
    if (!*isTime)
      break;
    if (Status status = timeRound(result_.finalRounds.finalists); !status.isOk())
      return status;
  }
  rank(result_.finalRounds.finalists);
  return Status::ok();
}

Result<CandidateTimes> Contest::run() {
  if (Status status = look(); !status.isOk())
    return status;
  if (Status status = playRounds(); !status.isOk())
    return status;
  return std::move(result_);
}

} // namespace

Result<CandidateTimes> timeCandidates(const std::vector<PredictedCandidate> &predictedCandidates,
                                      const TimingLimits &limits, const TimingActions &actions) {
  return Contest(predictedCandidates, limits, actions).run();
}

} // namespace braid
