//===- api/autotune/trials.h - selects the candidates to time and the fastest of them ---------===//
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
// burst, and another candidate 110 us.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"
#include "api/timing/plan_timer.h"

#include <limits>

namespace braid {

/// Measures candidates. All ranks get equal results, so they agree on the next candidate.
class CandidateTimer {
public:
  virtual ~CandidateTimer() = default;
  /// Makes the first trial. Returns the microseconds of a run in a burst.
  virtual Result<double> trial(const JudgedCandidate &candidate) = 0;
  /// Times one of the kMostFinalists fastest candidates so far again. Returns the microseconds of a
  /// run in a burst.
  virtual Result<double> turn(const JudgedCandidate &candidate) = 0;
  /// Returns the duration of all trials so far, in seconds.
  virtual Result<double> seconds() = 0;
};

struct TimingLimits {
  /// Time limit: no measurement starts that would end later. The best so far is chosen, even in the
  /// middle of a round or if nothing was timed.
  double seconds = std::numeric_limits<double>::infinity();
  /// The maximum number of first trials; there are 42 families. Without a time limit, all of them
  /// are made.
  size_t most = 48;
};

/// The maximum number of finalists. Candidates that are slower than the fastest by more than a
/// quarter are no finalists.
inline constexpr size_t kMostFinalists = 5;

/// Sorts candidates, which are sorted by prediction, in the order of their first trials: one of
/// each family, then the next of each, and last those whose predictions are too far off.
void sortForTrials(std::vector<JudgedCandidate> &candidates);

/// Times some of the candidates, which are sorted by prediction, and sets its timing results. Moves
/// the timed candidates to the front: first the finalists, sorted by their median, then the others,
/// sorted by their first trial. Returns the failures of `timer`.
Status timeCandidates(StageTrials &trials, const TimingLimits &limits, CandidateTimer &timer);

/// Calls timeCandidates() on the ranks of a job. Collective; each rank gets the same result.
Status runTrials(StageTrials &trials, const TimingLimits &limits, PlanTimer &timer);

} // namespace braid
