//===- api/autotune/trials.h - times candidates and selects the fastest one -------------------===//
//
// First, a single trial per candidate eliminates slow candidates. The fastest few are then timed in
// rounds, so that changes over time, especially in clock rates, affect all finalists equally.
//
// Predictions have similar errors for candidates with the same schedule, protocol and transfer mode
// (a family). Trials therefore start with the best-predicted candidate in each family, then
// continue with the second best in each family, and so on.
//
// Candidates are compared by their times in bursts of back-to-back runs, like the layers of a
// model. Single runs rank candidates differently: on 2 GPUs, the candidate with the fastest single
// run took 134 us per run in a burst, while another candidate took 110 us.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/candidates.h"

#include <limits>
#include <vector>

namespace braid {

/// The candidates for one stage, and their trials.
struct StageTrials {
  std::string stage = {}; ///< a tensor in the stage; empty if there is only one stage
  /// The chosen candidate, the other timed candidates as ordered by timeCandidates(), then the
  /// untimed ones.
  std::vector<JudgedCandidate> candidates = {};
  size_t finalists = 0; ///< number of candidates timed again in rounds
  size_t rounds = 0;    ///< number of rounds that timed every finalist
  double seconds = 0;   ///< duration of the trials

  const JudgedCandidate &best() const { return candidates.front(); }
  /// Returns the number of timed candidates.
  size_t timed() const;
  /// Explains to the user why the first candidate was chosen.
  std::string reason() const;
};

/// Times candidates. Results must be equal on all ranks, so that ranks agree on the next candidate.
class CandidateTimer {
public:
  virtual ~CandidateTimer() = default;
  /// Times a candidate for the first time. Returns the microseconds per run in a burst.
  virtual Result<double> trial(const JudgedCandidate &candidate) = 0;
  /// Times a candidate again. The candidate must be among the kMostFinalists fastest so far.
  /// Returns the microseconds per run in a burst.
  virtual Result<double> turn(const JudgedCandidate &candidate) = 0;
  /// Returns the duration of all trials so far, in seconds.
  virtual Result<double> seconds() = 0;
};

struct TimingLimits {
  /// The time budget. Measurements that would exceed it are not started; the best candidate so far
  /// is then chosen, even in the middle of a round or if nothing was timed.
  double seconds = std::numeric_limits<double>::infinity();
  /// The maximum number of first trials. If the time budget is infinite, exactly this many
  /// candidates are timed, if there are enough. The default exceeds the number of families, 42.
  size_t most = 48;
};

/// The maximum number of finalists. Candidates over 25 % slower than the fastest are excluded.
inline constexpr size_t kMostFinalists = 5;

/// Puts candidates, which must be sorted by prediction, into the order of their first trials: the
/// best of all, the default, the best of each family, the second best of each family, and so on,
/// and finally those whose predictions are too slow.
void sortForTrials(std::vector<JudgedCandidate> &candidates);

/// Times some of the candidates, which must be sorted by prediction, and sets the results in
/// `trials`. Moves the timed candidates to the front: first the finalists, sorted by median time
/// (but the default comes first if it is about as fast as the fastest), then the others, sorted by
/// the time of their first trial. Fails only if `timer` fails.
Status timeCandidates(StageTrials &trials, const TimingLimits &limits, CandidateTimer &timer);

/// Calls timeCandidates() on the ranks of a job. Collective; the result is equal on all ranks.
Status runTrials(StageTrials &trials, const TimingLimits &limits, PlanTimer &timer);

} // namespace braid
