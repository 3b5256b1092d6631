//===- api/autotune/trials.cpp - times candidates and selects the fastest one -----------------===//

#include "api/autotune/trials.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/tune/median.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// A candidate is hopeless if its predicted time exceeds the best prediction by more than this
/// fraction.
constexpr double kPredictionsMiss = 0.4;
/// The default schedule is chosen unless another candidate is faster by more than this fraction.
/// Defaults were measured in whole models. Bursts of one operation do not show how a schedule
/// affects other work and clock rates, and their times vary by this much.
constexpr double kBurstsMiss = 0.03;
/// The fraction of the time budget that first trials may use.
constexpr double kPartOfTrials = 0.7;
/// The number of first trials that may use the whole time budget, and limits on the round count.
constexpr size_t kLeastTrials = 3, kLeastRounds = 3, kMostRounds = 15;
/// The minimum number of runs in a trial and in a turn: warm-up runs, then a burst of two runs.
constexpr double kRunsOfTrial = 4, kRunsOfTurn = 3;

/// Returns the family of a candidate, whose members are assumed to have the same prediction error:
/// candidates with equal schedule, placement, reduction, protocols, partials and transfer mode.
std::string familyOf(const Candidate &candidate) {
  std::string family = candidate.preset().str();
  for (Knob knob :
       {Knob::Placement, Knob::Reduction, Knob::Protocol, Knob::SecondShot, Knob::Partials})
    family += " " + rowOf(knob).str(candidate.valueOf(knob));
  return family + " " + str(transferModeOf(candidate));
}

void sortByTime(llvm::MutableArrayRef<JudgedCandidate> timed) {
  llvm::stable_sort(timed, [](const JudgedCandidate &a, const JudgedCandidate &b) {
    return *a.burstUs < *b.burstUs;
  });
}

/// Returns true if work of `us` microseconds fits within the fraction `part` of the time budget.
Result<bool> hasTime(const TimingLimits &limits, CandidateTimer &timer, double part, double us) {
  return BRAID_TRY(timer.seconds()) + 1e-6 * us < part * limits.seconds;
}

/// Runs the first trials, and sorts the timed candidates by time. Returns the number of trials.
Result<size_t> makeTrials(std::vector<JudgedCandidate> &all, const TimingLimits &limits,
                          CandidateTimer &timer) {
  const double hopelessUs = all.front().predictedUs * (1 + kPredictionsMiss);
  size_t timed = 0;
  for (; timed < std::min(limits.most, all.size()); ++timed) {
    JudgedCandidate &next = all[timed];
    const bool isExtra = std::isfinite(limits.seconds) && timed >= kLeastTrials;
    if (isExtra && next.predictedUs > hopelessUs)
      break;
    const double part = isExtra ? kPartOfTrials : 1;
    if (!BRAID_TRY(hasTime(limits, timer, part, kRunsOfTrial * next.predictedUs)))
      break;
    next.burstUs = BRAID_TRY(timer.trial(next));
  }
  sortByTime(llvm::MutableArrayRef(all).take_front(timed));
  return timed;
}

/// Times the finalists in rounds until the time budget is exhausted. Every other round is in
/// reverse order, so that no finalist always runs after the same other finalist. If the budget is
/// exhausted in the first round, only the candidates timed in that round remain finalists.
Status playRounds(StageTrials &trials, llvm::MutableArrayRef<JudgedCandidate> finalists,
                  const TimingLimits &limits, CandidateTimer &timer) {
  const size_t rounds = std::isfinite(limits.seconds) ? kMostRounds : kLeastRounds;
  std::map<const JudgedCandidate *, std::vector<double>> turns; // microseconds
  bool isInTime = true;
  for (; isInTime && trials.rounds < rounds; trials.rounds += isInTime ? 1 : 0)
    for (size_t i = 0; isInTime && i < finalists.size(); ++i) {
      const bool isForwards = trials.rounds % 2 == 0;
      const JudgedCandidate &each = finalists[isForwards ? i : finalists.size() - 1 - i];
      isInTime = BRAID_TRY(hasTime(limits, timer, 1, kRunsOfTurn * *each.burstUs));
      if (isInTime)
        turns[&each].push_back(BRAID_TRY(timer.turn(each)));
    }
  trials.finalists = turns.size();
  finalists = finalists.take_front(turns.size());
  for (JudgedCandidate &each : finalists)
    each.burstUs = median(turns[&each]);
  sortByTime(finalists);
  return Status::ok();
}

/// Times candidates on the ranks of a job. All calls are collective.
class JobTimer : public CandidateTimer {
public:
  explicit JobTimer(PlanTimer &timer) : timer_(timer) {}

  Result<double> trial(const JudgedCandidate &candidate) override;
  Result<double> turn(const JudgedCandidate &candidate) override;
  Result<double> seconds() override { return timer_.largest(secondsSince(start_)); }

private:
  struct Ready {
    std::string schedule;
    TimedPlan plan;
  };
  Result<double> time(Ready &ready, const TimingEffort &warmUp, BurstEffort effort);

  PlanTimer &timer_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::multimap<double, Ready> ready_; ///< the kMostFinalists fastest candidates, by time
  bool isFirst_ = true;
};

Result<double> JobTimer::time(Ready &ready, const TimingEffort &warmUp, BurstEffort effort) {
  Result<double> us = timer_.warmUpRuns(ready.plan, warmUp);
  if (us)
    us = timer_.timeBursts(ready.plan, *us, effort);
  return us ? us : us.status().annotated(ready.schedule);
}

/// Times short bursts. A burst of five runs reduces the overhead per run to a fifth. Releases the
/// slowest candidate, because candidates may use gigabytes, and only the fastest are timed again.
Result<double> JobTimer::trial(const JudgedCandidate &candidate) {
  Result<TimedPlan> plan = timer_.makeReady(*candidate.plans, launchModeOf(candidate.candidate),
                                            transferModeOf(candidate.candidate));
  if (!plan)
    return plan.status().annotated(candidate.schedule.str());
  Ready ready{candidate.schedule.str(), std::move(*plan)};
  // Later trials need less warm-up, because the previous trial drew a similar amount of power.
  const double share = std::exchange(isFirst_, false) ? 1 : 0.3;
  const double warmUpUs = share * timer_.warmUpTimeUs(flopsOf(candidate.plans->front()));
  const double us = BRAID_TRY(time(ready, {.warmUpUs = warmUpUs}, {.runs = 5, .bursts = 3}));
  ready_.emplace(us, std::move(ready));
  if (ready_.size() > kMostFinalists)
    ready_.erase(std::prev(ready_.end()));
  return us;
}

/// Times one long burst, in which the overhead of a single run is negligible. With short bursts,
/// the candidate that draws the most power would lower the clock rates for all others.
Result<double> JobTimer::turn(const JudgedCandidate &candidate) {
  const double warmUpUs = timer_.warmUpTimeUs(flopsOf(candidate.plans->front()));
  const auto found = llvm::find_if(
      ready_, [&](const auto &each) { return each.second.schedule == candidate.schedule.str(); });
  if (found == ready_.end())
    return internalError("{} is not among the fastest candidates", candidate.schedule.str());
  return time(
      found->second, {.warmUp = 1},
      {.runs = 40, .bursts = 1, .budgetUs = std::max(8e3, 0.4 * warmUpUs), .warmUpUs = warmUpUs});
}

} // namespace

size_t StageTrials::timed() const {
  return static_cast<size_t>(llvm::count_if(
      candidates, [](const JudgedCandidate &each) { return each.burstUs.has_value(); }));
}

std::string StageTrials::reason() const {
  if (candidates.size() == 1)
    return "the only candidate that the flags allow";
  if (timed() < 2)
    return "predicted to be the fastest";
  return fmt::format(
      "{} of the {} that were timed",
      best().isDefault ? "the default, and within 3 % of the fastest" : "the fastest", timed());
}

void sortForTrials(std::vector<JudgedCandidate> &candidates) {
  if (candidates.empty())
    return;
  const double hopelessUs = candidates.front().predictedUs * (1 + kPredictionsMiss);
  std::map<std::string, size_t> families;
  std::vector<std::pair<size_t, JudgedCandidate>> placed; // by place in the family
  for (JudgedCandidate &each : candidates) {
    const size_t place = each.predictedUs > hopelessUs ? candidates.size()
                         : each.isDefault              ? 0
                                                       : families[familyOf(each.candidate)]++;
    placed.emplace_back(place, std::move(each));
  }
  llvm::stable_sort(placed, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 0; i < placed.size(); ++i)
    candidates[i] = std::move(placed[i].second);
  const auto usual = llvm::find_if(llvm::drop_begin(candidates), [&](const JudgedCandidate &each) {
    return each.isDefault && each.predictedUs <= hopelessUs;
  });
  if (usual != candidates.end())
    std::rotate(std::next(candidates.begin()), usual, std::next(usual));
}

Status timeCandidates(StageTrials &trials, const TimingLimits &limits, CandidateTimer &timer) {
  sortForTrials(trials.candidates);
  const size_t timed = BRAID_TRY(makeTrials(trials.candidates, limits, timer));
  const auto finalists = llvm::MutableArrayRef(trials.candidates)
                             .take_front(std::min(timed, kMostFinalists))
                             .take_while([&](const JudgedCandidate &each) {
                               return *each.burstUs <= 1.25 * *trials.candidates.front().burstUs;
                             });
  if (finalists.size() > 1)
    BRAID_TRY(playRounds(trials, finalists, limits, timer));
  const auto inTurns = finalists.take_front(trials.finalists);
  const auto usual = llvm::find_if(inTurns, [&](const JudgedCandidate &each) {
    return each.isDefault && *each.burstUs <= (1 + kBurstsMiss) * *inTurns.front().burstUs;
  });
  if (usual != inTurns.end())
    std::rotate(inTurns.begin(), usual, std::next(usual));
  trials.seconds = BRAID_TRY(timer.seconds());
  return Status::ok();
}

Status runTrials(StageTrials &trials, const TimingLimits &limits, PlanTimer &timer) {
  JobTimer jobTimer(timer);
  return timeCandidates(trials, limits, jobTimer);
}

} // namespace braid
