//===- api/autotune/time_candidates.cpp - times the best few, and the best of these again -----===//

#include "api/autotune/time_candidates.h"

#include "ir/failure.h"

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
  double now = BRAID_TRY(actions_.seconds());
  return now - start < limit;
}

Status Contest::look() {
  double start = BRAID_TRY(actions_.seconds());
  while (std::optional<size_t> candidate = order_.next()) {
    bool isTime = BRAID_TRY(
        goesOn(result_.times.size(), limits_.least, limits_.most, start, limits_.lookSeconds));
    if (!isTime)
      break;
    double us = BRAID_TRY(actions_.look(*candidate));
    result_.times.push_back({*candidate, us, predicted_[*candidate].worstCase});
    order_.add(*candidate, std::max(us, 1e-3)); // no clock is finer
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
    double us = BRAID_TRY(actions_.again(candidate));
    turns_[candidate].push_back(us);
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
  double start = BRAID_TRY(actions_.seconds());
  BRAID_TRY(timeRound(survivors));
  rank(survivors);
  result_.finalRounds.survivors = survivors;
  result_.finalRounds.finalists = std::min(survivors, kFinalists);
  while (true) {
    bool isTime = BRAID_TRY(goesOn(result_.finalRounds.rounds, limits_.leastRounds,
                                   limits_.mostRounds, start, limits_.finalSeconds));
    if (!isTime)
      break;
    BRAID_TRY(timeRound(result_.finalRounds.finalists));
  }
  rank(result_.finalRounds.finalists);
  return Status::ok();
}

Result<CandidateTimes> Contest::run() {
  BRAID_TRY(look());
  BRAID_TRY(playRounds());
  return std::move(result_);
}

} // namespace

Result<CandidateTimes> timeCandidates(const std::vector<PredictedCandidate> &predictedCandidates,
                                      const TimingLimits &limits, const TimingActions &actions) {
  return Contest(predictedCandidates, limits, actions).run();
}

} // namespace braid
