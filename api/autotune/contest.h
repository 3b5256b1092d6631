//===- api/autotune/contest.h - which candidates are timed, and which of them wins ------------===//
//
// First trials, one candidate after the other, leave out slow ones. Then the few best take turns in
// rounds, so that changes over time, of clocks above all, favour none of them.
//
// Predictions misjudge all candidates with the same schedule, protocol and transfer mode (a family)
// in the same way. So the first trials take the best predicted candidate of each family, then the
// second of each, and so on.
//
// Candidates are judged by their time in bursts, because runs follow one another as the layers of a
// model do. Single runs rank differently: on 2 GPUs the fastest single run took 134 us in a burst
// and another candidate 110 us. So first trials are bursts, too, if short ones.
//
// Nothing here measures anything.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"

#include <limits>

namespace braid {

/// Predictions that differ by less are equal; of equals, the simplest comes first.
constexpr double kPredictionsTell = 0.05;
/// A candidate that is predicted to be slower than the best by more is not the fastest.
constexpr double kPredictionsMiss = 0.4;

/// Brings the fastest predicted time, multiplied by worstCase, to the front.
void sortByPrediction(std::vector<JudgedCandidate> &candidates);

/// The order of the first trials of sorted candidates. Leaves out candidates that are predicted to
/// be slower than the best by more than `window` of its time, but for the `least` best.
std::vector<JudgedCandidate *> trialOrder(llvm::MutableArrayRef<JudgedCandidate> candidates,
                                          double window = kPredictionsMiss, size_t least = 1);

/// Measures. All ranks get the same answers, so they agree on the next candidate.
class CandidateTimer {
public:
  virtual ~CandidateTimer() = default;
  /// The first trial: microseconds of a run in a burst. Sets singleUs.
  virtual Result<double> trial(JudgedCandidate &candidate) = 0;
  /// One turn of a tried candidate: the same.
  virtual Result<double> turn(const JudgedCandidate &candidate) = 0;
  /// The time that trials have taken so far.
  virtual Result<double> seconds() = 0;
};

struct TimingLimits {
  /// Time limit: no measurement is begun that would end later, and the best so far is chosen, even
  /// in the middle of a round, and even if nothing was timed.
  double seconds = std::numeric_limits<double>::infinity();
  size_t least = 3, most = 48;             ///< number of first trials: there are 42 families
  double trialSeconds = 2;                 ///< after which they go on for `least` only
  double window = kPredictionsMiss;        ///< see trialOrder()
  size_t leastRounds = 3, mostRounds = 15; ///< number of rounds
  double finalSeconds = 0.4;               ///< after which they go on for `leastRounds` only

  /// The limits for a contest of `seconds`.
  static TimingLimits within(double seconds);
};

/// At most this many candidates take turns, and none that is slower than the fastest by more than a
/// quarter.
inline constexpr size_t kMostFinalists = 5;

/// Times some of the sorted candidates of `choice`, and sets all that it says of times. Brings the
/// timed candidates to the front: first those that took turns, by the median of their turns, then
/// the others by their first trial; both multiplied by worstCase. Fails as `timer` does.
Status timeCandidates(ScheduleChoice &choice, const TimingLimits &limits, CandidateTimer &timer);

} // namespace braid
