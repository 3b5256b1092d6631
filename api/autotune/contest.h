//===- api/autotune/contest.h - selects the candidates to time and the fastest of them --------===//
//
// First trials, one candidate after the other, eliminate slow candidates. Then the best few are
// timed in rounds, so that changes over time, especially of clocks, affect all of them equally.
//
// Predictions have the same error for all candidates with equal schedule, protocol and transfer
// mode (a family). So the first trials are of the best predicted candidate of each family, then of
// the second best of each, and so on.
//
// Candidates are compared by their time in bursts, because runs follow one another like the layers
// of a model. Single runs rank differently: on 2 GPUs the fastest single run took 134 us in a
// burst, and another candidate 110 us. So the first trials are short bursts.
//
// This file only decides; it measures nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"

#include <limits>

namespace braid {

/// Predictions that differ by less are treated as equal; the simplest of equal candidates is first.
constexpr double kPredictionsTell = 0.05;
/// A candidate whose prediction exceeds the best by more cannot be the fastest.
constexpr double kPredictionsMiss = 0.4;

/// Sorts by predicted time multiplied by worstCase, the fastest first.
void sortByPrediction(std::vector<JudgedCandidate> &candidates);

/// Returns the order of the first trials of sorted candidates. Leaves out candidates whose
/// predictions exceed the best by more than the fraction `window`, except for the `least` best.
std::vector<JudgedCandidate *> trialOrder(llvm::MutableArrayRef<JudgedCandidate> candidates,
                                          double window = kPredictionsMiss, size_t least = 1);

/// Measures candidates. All ranks get equal results, so they agree on the next candidate.
class CandidateTimer {
public:
  virtual ~CandidateTimer() = default;
  /// Makes the first trial. Returns the microseconds of a run in a burst. Sets singleUs.
  virtual Result<double> trial(JudgedCandidate &candidate) = 0;
  /// Times a candidate again. Returns the microseconds of a run in a burst.
  virtual Result<double> turn(const JudgedCandidate &candidate) = 0;
  /// Returns the duration of all trials so far, in seconds.
  virtual Result<double> seconds() = 0;
};

struct TimingLimits {
  /// Time limit: no measurement starts that would end later. The best so far is chosen, even in the
  /// middle of a round or if nothing was timed.
  double seconds = std::numeric_limits<double>::infinity();
  size_t least = 3, most = 48;             ///< the number of first trials; there are 42 families
  double trialSeconds = 2;                 ///< after this time, only `least` trials are made
  double window = kPredictionsMiss;        ///< see trialOrder()
  size_t leastRounds = 3, mostRounds = 15; ///< the number of rounds
  double finalSeconds = 0.4;               ///< after this time, only `leastRounds` rounds are made

  /// Returns the limits for a contest of `seconds`.
  static TimingLimits within(double seconds);
};

/// The maximum number of finalists. Candidates that are slower than the fastest by more than a
/// quarter are no finalists.
inline constexpr size_t kMostFinalists = 5;

/// Times some of the sorted candidates of `choice`, and sets its timing results. Moves the timed
/// candidates to the front: first the finalists, sorted by their median, then the others, sorted by
/// their first trial; both multiplied by worstCase. Returns the failures of `timer`.
Status timeCandidates(ScheduleChoice &choice, const TimingLimits &limits, CandidateTimer &timer);

} // namespace braid
