//===- api/timing/plan_timer.cpp - times Plans on the ranks of a job --------------------------===//

#include "api/timing/plan_timer.h"

#include "ir/failure.h"
#include "lowering/schedule/gpu_facts.h"
#include "runtime/tune/median.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace braid {

double warmUpTimeUs(double operations) {
  return operations > kH200.manyOperations ? kH200.steadyUs : 0;
}

PlanTimer::PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier)
    : cluster_(cluster), rank_(rank), plans_(plans), barrier_(std::move(barrier)),
      tensors_(device(), rank) {}

double PlanTimer::warmUpTimeUs(llvm::ArrayRef<PlanMatmul> gemms) {
  double operations = 0;
  for (const PlanMatmul &gemm : gemms)
    operations += 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k);
  return device().sharesHostMemory() ? 0 : braid::warmUpTimeUs(operations);
}

Result<std::string> PlanTimer::fromRankZero(std::string mine) {
  std::vector<std::string> all = BRAID_TRY(control().allGather(rank_ == 0 ? std::move(mine) : ""));
  return std::move(all.front());
}

/// By its bytes: ranks are on one host.
Result<double> PlanTimer::numberFromRankZero(double mine) {
  std::string text =
      BRAID_TRY(fromRankZero(std::string(reinterpret_cast<const char *>(&mine), sizeof(mine))));
  if (text.size() != sizeof(mine))
    return internalError("expected a number from rank 0");
  std::memcpy(&mine, text.data(), sizeof(mine));
  return mine;
}

// -- Runs. --

Status PlanTimer::meet(double idleGapUs) {
  if (!barrier_) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(idleGapUs));
    return control().allGather("").status();
  }
  return meetAt(barrier_, device(), idleGapUs);
}

Result<RunTime> PlanTimer::timeOnce(TimedPlan &plan, double idleGapUs) {
  BRAID_TRY(meet(idleGapUs));
  return timeRun(*plan.prepared, device(), plan.launchMode, plan.inputs, plan.outputs);
}

Result<double> PlanTimer::timeRuns(TimedPlan &plan, int64_t runs, double idleGapUs) {
  BRAID_TRY(meet(idleGapUs));
  return timeBurst(*plan.prepared, device(), plan.launchMode, runs, plan.inputs, plan.outputs);
}

Result<double> PlanTimer::timeBursts(TimedPlan &plan, double us, const BurstEffort &effort) {
  const double each = std::max(us, 1.0);
  auto fit = [&](double time, int64_t least, int64_t most) {
    return std::clamp(static_cast<int64_t>(std::min(effort.budgetUs / time, 1e6)), least, most);
  };
  const int64_t runs = fit(each, 2, effort.runs);
  const int64_t timed = fit(each * double(runs), 1, effort.bursts);
  const int64_t untimed = runsToWarmUp(effort.warmUpUs, each * double(runs));
  std::vector<double> times;
  for (int64_t i = -untimed; i < timed; ++i) {
    const double time = BRAID_TRY(timeRuns(plan, runs, kIdleGapUs));
    if (i >= 0)
      times.push_back(time);
  }
  return median(BRAID_TRY(maximaOverRanks(control(), times)));
}

Result<double> PlanTimer::warmUpRuns(TimedPlan &plan, const TimingEffort &effort) {
  BRAID_TRY(issueAs(plan, plan.launchMode));
  auto runsFor = [&](double us) {
    return std::max(effort.warmUp, runsToWarmUp(effort.warmUpUs, us));
  };
  return warmUp(control(), runsFor,
                [&]() -> Result<double> { return BRAID_TRY(timeOnce(plan)).us; });
}

Result<RunTime> PlanTimer::time(TimedPlan &plan, const TimingEffort &effort) {
  double us = BRAID_TRY(warmUpRuns(plan, effort));
  const double fitting = std::min(effort.budgetUs / std::max(us, 1.0), 1e6);
  const int64_t runs = std::clamp(static_cast<int64_t>(fitting), effort.least, effort.most);
  std::vector<double> times; // all, then what they took to issue: one exchange for both
  std::vector<double> issues;
  for (int64_t i = 0; i < runs; ++i) {
    RunTime time = BRAID_TRY(timeOnce(plan));
    times.push_back(time.us);
    issues.push_back(time.issueUs);
  }
  times.insert(times.end(), issues.begin(), issues.end());
  std::vector<double> most = BRAID_TRY(maximaOverRanks(control(), times));
  return RunTime{median({most.begin(), most.begin() + runs}),
                 median({most.begin() + runs, most.end()})};
}

// -- Plans. --

Status PlanTimer::issueAs(TimedPlan &timed, LaunchMode launchMode) {
  if (cluster_.hosted() == 1)
    cluster_.setPlans(*timed.plans);
  timed.launchMode = launchMode;
  if (launchMode != LaunchMode::Graph || std::exchange(timed.isCaptured, true))
    return Status::ok();
  return timed.prepared->capture(timed.inputs, timed.outputs);
}

Result<TimedPlan> PlanTimer::makeReady(std::vector<Plan> plans, LaunchMode launchMode,
                                       TransferMode transferMode) {
  BRAID_TRY(checkHosts(cluster_, plans.front()));
  nextCommand_ = numberCommands(plans, nextCommand_);
  plans_.push_back(std::move(plans));
  TimedPlan timed;
  timed.plans = &plans_.back();
  if (cluster_.hosted() == 1)
    cluster_.setPlans(*timed.plans);
  const Plan &plan = (*timed.plans)[static_cast<size_t>(rank_)];
  timed.prepared = BRAID_TRY(prepare(plan, device(), control(), transferMode));
  preparedBytes_ += plan.symmetricBytes + plan.deviceBytes;
  timed.inputs = BRAID_TRY(tensors_.inputsOf(plan));
  timed.outputs = BRAID_TRY(tensors_.outputsOf(plan));
  BRAID_TRY(issueAs(timed, launchMode));
  return timed;
}

Result<std::vector<RunTime>> PlanTimer::time(std::vector<Plan> plans,
                                             llvm::ArrayRef<LaunchMode> launchModes,
                                             const TimingEffort &effort,
                                             TransferMode transferMode) {
  TimedPlan timed = BRAID_TRY(makeReady(std::move(plans), launchModes.front(), transferMode));
  std::vector<RunTime> times;
  for (LaunchMode launchMode : launchModes) {
    BRAID_TRY(issueAs(timed, launchMode));
    times.push_back(BRAID_TRY(this->time(timed, effort)));
  }
  return times;
}

} // namespace braid
