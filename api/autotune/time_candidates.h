//===- api/autotune/time_candidates.h - times the best few, and the best of these again -------===//
//
// A first look at as many as there is time for (timing_rules.h), one after the other; then rounds,
// in which the best of them take turns. The first one only leaves out some. Those that stay decide
// it among themselves: what changes with time, clocks above all, favours none of them.
//
// What counts is a run in a burst, where runs follow one another as layers of a model do. Runs
// alone rank differently: on 2 GPUs the best of them took 134 us in a burst, where another took
// 110. So first trials are bursts, too, if short ones. They leave nobody out for what a run takes
// alone, and cost little beside preparing a candidate.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/timing_rules.h"
#include "api/status.h"

#include <functional>
#include <limits>

namespace braid {

/// How timing is done. All ranks get the same answers, so that all go on with the same candidate.
struct TimingActions {
  // Microseconds of a run in a burst.
  std::function<Result<double>(size_t candidate)> look;  ///< the first time
  std::function<Result<double>(size_t candidate)> again; ///< of one that was looked at: one round
  std::function<Result<double>()> seconds;               ///< of trials that have gone
};

struct TimingLimits {
  /// What would end later is not timed any more, and the best so far is the best: in the middle of
  /// a round, too, and if nothing was timed at all.
  double seconds = std::numeric_limits<double>::infinity();
  size_t least = 3, most = 48;      ///< candidates of the first look: there are 42 families
  double lookSeconds = 2;           ///< after which it goes on for `least` only
  double window = kPredictionsMiss; ///< of predictions, as FirstTrials has it, for all but `least`
  size_t leastRounds = 3, mostRounds = 15; ///< of the final rounds
  double finalSeconds = 0.4;               ///< after which they go on for `leastRounds` only

  /// Those of a contest that ends in time.
  static TimingLimits within(double seconds);
};

struct CandidateTimes {
  /// Finalists first, by the median of their turns, the winner at the front; then the others that
  /// played the first round, by that; then all others, by the first look; by what counts
  /// (CandidateTime). May be empty.
  std::vector<CandidateTime> times;
  FinalRounds finalRounds;
};

/// Fails as the actions do.
Result<CandidateTimes> timeCandidates(const std::vector<PredictedCandidate> &predictedCandidates,
                                      const TimingLimits &limits, const TimingActions &actions);

} // namespace braid
