//===- api/autotune/trials.cpp - times the candidates of a stage ------------------------------===//

#include "api/autotune/trials.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// Every call is collective, and all ranks get equal results, so all time the same candidates.
class Trials : public CandidateTimer {
public:
  explicit Trials(PlanTimer &timer) : timer_(timer) {}

  Result<double> trial(JudgedCandidate &candidate) override;
  Result<double> turn(const JudgedCandidate &candidate) override;
  Result<double> seconds() override { return timer_.numberFromRankZero(secondsSince(start_)); }

private:
  Result<TimedPlan *> ready(const JudgedCandidate &candidate);
  Result<double> tryOut(JudgedCandidate &candidate);
  Result<double> takeTurn(const JudgedCandidate &candidate);
  double warmUpTimeOf(const JudgedCandidate &candidate) const {
    return timer_.warmUpTimeUs(candidate.plans->front().matmuls);
  }

  PlanTimer &timer_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<const JudgedCandidate *, TimedPlan> ready_; ///< candidates that may be timed again
  bool isFirst_ = true;
};

/// Returns the prepared candidate. Prepares it if necessary; collective. A prepared candidate may
/// use gigabytes, and only the fastest are timed again, so the slowest of many is released.
Result<TimedPlan *> Trials::ready(const JudgedCandidate &candidate) {
  constexpr size_t kMost = 2 * kMostFinalists;
  if (auto found = ready_.find(&candidate); found != ready_.end())
    return &found->second;
  auto isFaster = [](const auto &a, const auto &b) {
    return a.first->countedUs() < b.first->countedUs();
  };
  if (ready_.size() == kMost)
    ready_.erase(std::max_element(ready_.begin(), ready_.end(), isFaster));
  TimedPlan made = BRAID_TRY(timer_.makeReady(*candidate.plans, launchModeOf(candidate.candidate),
                                              transferModeOf(candidate.candidate)));
  return &ready_.emplace(&candidate, std::move(made)).first->second;
}

/// Times a few single runs, which show the error of the prediction, then short bursts. In a burst
/// of five runs, a fifth of the extra time of a single run remains.
Result<double> Trials::tryOut(JudgedCandidate &candidate) {
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  // All trials except the first follow one that drew a similar amount of power.
  const double share = std::exchange(isFirst_, false) ? 1 : 0.3;
  const RunTime single = BRAID_TRY(timer_.time(
      *plan,
      {.least = 1, .most = 3, .budgetUs = 10000, .warmUpUs = share * warmUpTimeOf(candidate)}));
  candidate.singleUs = single.us;
  return timer_.timeBursts(*plan, single.us, {.runs = 5, .bursts = 3});
}

/// Times one long burst, in which the extra time of a single run is negligible. In short bursts,
/// the candidate that draws the most power would slow down the clocks for all others.
Result<double> Trials::takeTurn(const JudgedCandidate &candidate) {
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  const double us = BRAID_TRY(timer_.warmUpRuns(*plan, {.warmUp = 1}));
  const double warmUpUs = warmUpTimeOf(candidate);
  return timer_.timeBursts(
      *plan, us,
      {.runs = 40, .bursts = 1, .budgetUs = std::max(8e3, 0.4 * warmUpUs), .warmUpUs = warmUpUs});
}

Result<double> Trials::trial(JudgedCandidate &candidate) {
  Result<double> us = tryOut(candidate);
  return us ? us : us.status().annotated(candidate.schedule.str());
}

Result<double> Trials::turn(const JudgedCandidate &candidate) {
  Result<double> us = takeTurn(candidate);
  return us ? us : us.status().annotated(candidate.schedule.str());
}

} // namespace

Status runTrials(ScheduleChoice &choice, const TimingLimits &limits, PlanTimer &timer) {
  Trials trials(timer);
  return timeCandidates(choice, limits, trials);
}

} // namespace braid
