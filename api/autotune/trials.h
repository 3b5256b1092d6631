//===- api/autotune/trials.h - times the candidates of a stage --------------------------------===//
#pragma once

#include "api/autotune/candidate_search.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Times candidates on the ranks of a job. Every call is collective, and each rank gets the same
/// answers, so all time the same candidates.
class Trials {
public:
  /// Both outlive this.
  Trials(std::vector<LoweredCandidate> &candidates, PlanTimer &timer)
      : candidates_(candidates), timer_(timer) {}

  /// Times candidates, which are in the order of their predictions, and brings those that were
  /// timed to the front, in the order of CandidateTimes.
  Result<CandidateTimes> run(const TimingLimits &limits);
  /// Seconds since it was made, by rank 0's clock.
  Result<double> seconds();

private:
  Result<TimedPlan *> ready(size_t candidate);
  double warmUpTimeOf(size_t candidate) const;
  void keepFastest();
  Result<double> tryOut(size_t candidate);
  Result<double> takeTurn(size_t candidate);
  TimingActions actions();

  std::vector<LoweredCandidate> &candidates_;
  PlanTimer &timer_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<size_t, TimedPlan> ready_; ///< candidates that may be timed again
  std::map<size_t, double> trials_;   ///< the counted time of each first trial
};

} // namespace braid
