//===- api/autotune/trials.cpp - times the candidates of a stage ------------------------------===//

#include "api/autotune/trials.h"

#include "api/autotune/candidate_search.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// Every call is collective, and each rank gets the same answers, so all time the same candidates.
class Trials {
public:
  Trials(std::vector<JudgedCandidate> &candidates, PlanTimer &timer)
      : candidates_(candidates), timer_(timer) {}

  TimingActions actions();

private:
  Result<TimedPlan *> ready(size_t candidate);
  double warmUpTimeOf(size_t candidate) const;
  void keepFastest();
  Result<double> tryOut(size_t candidate);
  Result<double> takeTurn(size_t candidate);

  std::vector<JudgedCandidate> &candidates_;
  PlanTimer &timer_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<size_t, TimedPlan> ready_; ///< candidates that may be timed again
  std::map<size_t, double> trials_;   ///< the counted time of each first trial
};

/// Prepares a candidate, if it is not prepared. Collective.
Result<TimedPlan *> Trials::ready(size_t candidate) {
  if (auto found = ready_.find(candidate); found != ready_.end())
    return &found->second;
  const JudgedCandidate &lowered = candidates_[candidate];
  TimedPlan made = BRAID_TRY(timer_.makeReady(*lowered.plans, launchModeOf(lowered.candidate),
                                              transferModeOf(lowered.candidate)));
  return &ready_.emplace(candidate, std::move(made)).first->second;
}

double Trials::warmUpTimeOf(size_t candidate) const {
  return timer_.warmUpTimeUs(candidates_[candidate].plans->front().matmuls);
}

/// A prepared candidate may hold gigabytes, and only the fastest are timed again.
void Trials::keepFastest() {
  constexpr size_t kMost = 2 * kMostFinalists;
  auto isFaster = [this](const auto &a, const auto &b) {
    return trials_.at(a.first) < trials_.at(b.first);
  };
  if (ready_.size() > kMost)
    ready_.erase(std::max_element(ready_.begin(), ready_.end(), isFaster));
}

/// Times a few single runs, which show how wrong the prediction was, then short bursts. In a burst
/// of five, a fifth remains of the time that a single run takes longer.
Result<double> Trials::tryOut(size_t candidate) {
  // All but the first follow another one that draws as much power.
  const double share = trials_.empty() ? 1 : 0.3;
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  const double warmUpUs = share * warmUpTimeOf(candidate);
  const RunTime single = BRAID_TRY(
      timer_.time(*plan, {.least = 1, .most = 3, .budgetUs = 10000, .warmUpUs = warmUpUs}));
  const double us = BRAID_TRY(timer_.timeBursts(*plan, single.us, {.runs = 5, .bursts = 3}));
  candidates_[candidate].singleUs = single.us;
  trials_[candidate] = us * candidates_[candidate].worstCase;
  keepFastest();
  return us;
}

/// Times one long burst, in which hardly anything remains of the time that a single run takes
/// longer. In short turns, all candidates would have the clocks that the one with the highest power
/// leaves to them.
Result<double> Trials::takeTurn(size_t candidate) {
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  const double us = BRAID_TRY(timer_.warmUpRuns(*plan, {.warmUp = 1}));
  const double warmUpUs = warmUpTimeOf(candidate);
  return timer_.timeBursts(
      *plan, us,
      {.runs = 40, .bursts = 1, .budgetUs = std::max(8e3, 0.4 * warmUpUs), .warmUpUs = warmUpUs});
}

TimingActions Trials::actions() {
  auto named = [this](size_t candidate, Result<double> us) {
    return us ? us : us.status().annotated(candidates_[candidate].schedule.str());
  };
  return {.trial = [=, this](size_t candidate) { return named(candidate, tryOut(candidate)); },
          .turn = [=, this](size_t candidate) { return named(candidate, takeTurn(candidate)); },
          .seconds = [this] { return timer_.numberFromRankZero(secondsSince(start_)); }};
}

} // namespace

Result<CandidateTimes> runTrials(std::vector<JudgedCandidate> &candidates,
                                 const TimingLimits &limits, PlanTimer &timer) {
  Trials trials(candidates, timer);
  Result<CandidateTimes> timed =
      timeCandidates(predictionsOf(candidates), limits, trials.actions());
  if (!timed)
    return timed;
  std::vector<JudgedCandidate> ordered;
  for (const CandidateTime &each : timed->times) {
    candidates[each.candidate].burstUs = each.us;
    ordered.push_back(candidates[each.candidate]);
  }
  llvm::copy_if(candidates, std::back_inserter(ordered),
                [](const JudgedCandidate &each) { return !each.burstUs; });
  candidates = std::move(ordered);
  return timed;
}

} // namespace braid
