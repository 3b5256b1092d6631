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
// Nothing here measures anything. Candidates are numbers, 0 and up.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace braid {

/// A candidate as the rules see it.
struct PredictedCandidate {
  double predictedUs = 0;
  size_t commands = 0; ///< commands of a rank in a run: the fewer, the simpler
  std::string family = {};
  /// The factor by which later runs may take longer than the first few (candidates.h). Candidates
  /// are put in order by their times multiplied by it.
  double worstCase = 1;
};

/// Predictions that differ by less are equal; of equals, the simplest comes first.
constexpr double kPredictionsTell = 0.05;
/// A candidate that is predicted to be slower than the best by more is not the fastest.
constexpr double kPredictionsMiss = 0.4;

/// All candidates, fastest predicted time first.
std::vector<size_t> orderByPrediction(llvm::ArrayRef<PredictedCandidate> candidates);

/// The order of the first trials. Leaves out candidates that are predicted to be slower than the
/// best by more than `window` of its time, but for the `least` best.
std::vector<size_t> trialOrder(llvm::ArrayRef<PredictedCandidate> candidates,
                               double window = kPredictionsMiss, size_t least = 1);

/// Functions that measure. All ranks get the same answers, so they agree on the next candidate.
struct TimingActions {
  // Microseconds of a run in a burst.
  std::function<Result<double>(size_t candidate)> trial; ///< the first trial
  std::function<Result<double>(size_t candidate)> turn;  ///< one turn of a tried candidate
  std::function<Result<double>()> seconds;               ///< time that trials have taken so far
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

struct CandidateTime {
  size_t candidate;
  double us;
  double worstCase = 1; ///< as PredictedCandidate has it

  double countedUs() const { return us * worstCase; }
};

struct CandidateTimes {
  /// Finalists first, by the median of their turns, the winner at the front; then the others by
  /// their first trial; both multiplied by worstCase. May be empty.
  std::vector<CandidateTime> times;
  size_t finalists = 0; ///< candidates that took turns; 0: there was nothing to compare
  size_t rounds = 0;
  double seconds = 0; ///< that all of it took
};

/// At most so many candidates take turns, and none that is slower than the fastest by more than a
/// quarter.
inline constexpr size_t kMostFinalists = 5;

/// Fails as the actions do.
Result<CandidateTimes> timeCandidates(llvm::ArrayRef<PredictedCandidate> candidates,
                                      const TimingLimits &limits, const TimingActions &actions);

} // namespace braid
