//===- api/autotune/time_candidates.cpp - times the best few, and the best of these again -----===//

#include "api/autotune/time_candidates.h"

#include "ir/failure.h"
#include "runtime/tune/median.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// One choice.
class Contest {
public:
  Contest(const std::vector<PredictedCandidate> &predictedCandidates, const TimingLimits &limits,
          const TimingActions &actions)
      : predicted_(predictedCandidates), order_(predictedCandidates, limits.window, limits.least),
        limits_(limits), actions_(actions) {}

  Result<CandidateTimes> run();

private:
  Result<bool> fits(double us, double runs) const;
  Result<bool> goesOn(size_t done, size_t least, size_t most, double start, double limit) const;
  Status look();
  Result<size_t> timeRound(size_t survivors);
  void rank(size_t survivors);
  Status playRounds();

  const std::vector<PredictedCandidate> &predicted_;
  FirstTrials order_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  CandidateTimes result_;
  std::map<size_t, std::vector<double>> turns_; ///< times of each candidate, in microseconds
};

// Numbers of runs of a candidate whose runs take long.
constexpr double kLeastOfTrial = 5; ///< two to warm up, one alone, and a burst of two
constexpr double kLeastOfTurn = 3;  ///< one to warm up, and a burst of two

/// So many runs of a candidate whose run takes so long end in time.
Result<bool> Contest::fits(double us, double runs) const {
  if (limits_.seconds == std::numeric_limits<double>::infinity())
    return true;
  double now = BRAID_TRY(actions_.seconds());
  return now + 1e-6 * runs * us < limits_.seconds;
}

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
    if (!isTime || !BRAID_TRY(fits(predicted_[*candidate].predictedUs, kLeastOfTrial)))
      break;
    double us = BRAID_TRY(actions_.look(*candidate));
    result_.times.push_back({*candidate, us, predicted_[*candidate].worstCase});
    order_.add(*candidate, std::max(us, 1e-3)); // no clock is finer
  }
  sortByTime(result_.times);
  return Status::ok();
}

/// A turn for each of the first `survivors` of the times, while there is time; returns how many had
/// theirs. Every other round goes backwards, so that nobody always comes after the same one.
Result<size_t> Contest::timeRound(size_t survivors) {
  const bool isForwards = result_.finalRounds.rounds++ % 2 == 0;
  for (size_t i = 0; i < survivors; ++i) {
    const CandidateTime &each = result_.times[isForwards ? i : survivors - 1 - i];
    if (!BRAID_TRY(fits(each.us, kLeastOfTurn)))
      return i;
    double us = BRAID_TRY(actions_.again(each.candidate));
    turns_[each.candidate].push_back(us);
  }
  return survivors;
}

/// Puts the first `survivors` of the times in order, by their turns so far.
void Contest::rank(size_t survivors) {
  auto first = llvm::MutableArrayRef<CandidateTime>(result_.times).take_front(survivors);
  for (CandidateTime &each : first)
    each.us = median(turns_[each.candidate]);
  sortByTime(first);
}

/// If the time ends the first round, those who had their turns in it are the survivors.
Status Contest::playRounds() {
  size_t survivors = survivorsOf(result_.times);
  if (survivors < 2)
    return Status::ok();
  double start = BRAID_TRY(actions_.seconds());
  survivors = BRAID_TRY(timeRound(survivors));
  if (survivors < 2)
    return Status::ok();
  rank(survivors);
  result_.finalRounds.survivors = survivors;
  result_.finalRounds.finalists = std::min(survivors, kFinalists);
  while (true) {
    bool isTime = BRAID_TRY(goesOn(result_.finalRounds.rounds, limits_.leastRounds,
                                   limits_.mostRounds, start, limits_.finalSeconds));
    if (!isTime)
      break;
    const size_t finalists = result_.finalRounds.finalists;
    if (BRAID_TRY(timeRound(finalists)) < finalists)
      break;
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

TimingLimits TimingLimits::within(double seconds) {
  constexpr double kPartOfLook = 0.7;
  TimingLimits limits;
  limits.seconds = seconds;
  limits.lookSeconds = kPartOfLook * seconds;
  limits.finalSeconds = (1 - kPartOfLook) * seconds;
  return limits;
}

Result<CandidateTimes> timeCandidates(const std::vector<PredictedCandidate> &predictedCandidates,
                                      const TimingLimits &limits, const TimingActions &actions) {
  return Contest(predictedCandidates, limits, actions).run();
}

} // namespace braid
