//===- api/autotune/time_candidates.h - times the best few, and the best of these again -------===//
//
// A first look at as many as there is time for (timing_rules.h), one after the other; then rounds,
// in which the best of them take turns. The first one only leaves out some. Those that stay decide
// it among themselves: what changes with time, clocks above all, favours none of them.
//
// Candidates are judged by their time in bursts, because runs follow one another as the layers of a
// model do. Single runs rank differently: on 2 GPUs the fastest single run took 134 us in a burst
// and another candidate 110 us. So first trials are bursts, too, if short ones. They do not punish
// a candidate for a slow single run, and cost little compared to preparing the candidate.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/timing_rules.h"
#include "api/status.h"

#include <functional>
#include <limits>

namespace braid {

/// Functions that measure. All ranks get the same answers, so they agree on the next candidate.
struct TimingActions {
  // Microseconds of a run in a burst.
  std::function<Result<double>(size_t candidate)> look;  ///< the first time
  std::function<Result<double>(size_t candidate)> again; ///< one round of a tried candidate
  std::function<Result<double>()> seconds;               ///< time that trials have taken so far
};

struct TimingLimits {
  /// Time limit: no measurement is begun that would end later, and the best so far is chosen, even
  /// in the middle of a round, and even if nothing was timed.
  double seconds = std::numeric_limits<double>::infinity();
  size_t least = 3, most = 48;             ///< candidates of the first look: there are 42 families
  double lookSeconds = 2;                  ///< after which it goes on for `least` only
  double window = kPredictionsMiss;        ///< see FirstTrials; not for the first `least`
  size_t leastRounds = 3, mostRounds = 15; ///< number of final rounds
  double finalSeconds = 0.4;               ///< after which they go on for `leastRounds` only

  /// The limits for a contest of `seconds`.
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
