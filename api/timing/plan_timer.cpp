//===- api/timing/plan_timer.cpp - times Plans on the ranks of a job --------------------------===//

#include "api/timing/plan_timer.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/tune/median.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

namespace braid {

using Clock = std::chrono::steady_clock;

/// Returns the median, or, for an even number of values, the smaller of the two middle values.
static double lowerMedian(std::vector<double> &values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double flopsOf(const Plan &plan) {
  double flops = 0;
  for (const PlanMatmul &gemm : plan.matmuls)
    flops += operationsOf(gemm);
  return flops;
}

/// Returns the elementwise maxima over all ranks. Collective; blocks. Returns BadInput if the ranks
/// pass different numbers of values.
static Result<std::vector<double>> maximaOverRanks(ControlPlane &control,
                                                   const std::vector<double> &mine) {
  const size_t bytes = mine.size() * sizeof(double);
  std::vector<std::string> all =
      BRAID_TRY(control.allGather(std::string(reinterpret_cast<const char *>(mine.data()), bytes)));
  std::vector<double> maxima(mine.size(), 0), theirs(mine.size());
  for (const std::string &each : all) {
    if (each.size() != bytes)
      return badInput("expected {} measured times from each rank, got {}", mine.size(),
                      each.size() / sizeof(double));
    std::memcpy(theirs.data(), each.data(), bytes);
    for (size_t i = 0; i < maxima.size(); ++i)
      maxima[i] = std::max(maxima[i], theirs[i]);
  }
  return maxima;
}

/// Returns how many runs of `us` microseconds take about `warmUpUs`, or 2 if `us` is not yet known.
static int64_t runsToWarmUp(double warmUpUs, double us) {
  constexpr double kMost = 1e5;
  if (warmUpUs > 0 && us <= 0)
    return 2;
  return static_cast<int64_t>(std::min(std::ceil(warmUpUs / std::max(us, 1e-3)), kMost));
}

Result<double> warmUp(ControlPlane &control, int64_t least, double warmUpUs,
                      const std::function<Result<double>()> &run) {
  double us = 0;
  int64_t runs = std::max(least, runsToWarmUp(warmUpUs, us));
  std::vector<double> times; // since the last estimate
  for (int64_t done = 1; done <= runs; ++done) {
    times.push_back(BRAID_TRY(run()));
    if (!llvm::isPowerOf2_64(static_cast<uint64_t>(done)))
      continue;
    if (done > 1 || runs == 1) {
      us = BRAID_TRY(maximaOverRanks(control, {lowerMedian(times)})).front();
      runs = std::max(least, runsToWarmUp(warmUpUs, us));
    }
    times.clear();
  }
  return us;
}

/// A run with more operations than this draws so much power that the clocks of an H200 drop. They
/// are steady after kSteadyUs. Devices do not report these values. Source: tools/bench/README.md.
static constexpr double kManyOperations = 5e10, kSteadyUs = 100e3;

PlanTimer::PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier)
    : cluster_(cluster), rank_(rank), plans_(plans), barrier_(std::move(barrier)),
      tensors_(device(), rank) {}

double PlanTimer::warmUpTimeUs(double flops) {
  return flops > kManyOperations && !device().sharesHostMemory() ? kSteadyUs : 0;
}

Result<std::string> PlanTimer::fromRankZero(std::string mine) {
  std::vector<std::string> all = BRAID_TRY(control().allGather(rank_ == 0 ? std::move(mine) : ""));
  return std::move(all.front());
}

Result<double> PlanTimer::largest(double mine) {
  return BRAID_TRY(maximaOverRanks(control(), {mine})).front();
}

// -- Runs. --

void TimedPlan::issue(int64_t runs) {
  for (int64_t i = 0; i < runs; ++i)
    if (launchMode == LaunchMode::Graph)
      prepared->replay();
    else
      prepared->run(inputs, outputs);
}

/// Idles, then waits at the barrier. If the job has failed, returns the cause if known.
Status PlanTimer::meet() {
  if (!barrier_) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(kIdleGapUs));
    return control().allGather("").status();
  }
  for (const Clock::time_point start = Clock::now(); 1e6 * secondsSince(start) < kIdleGapUs;)
    ; // spin, because a sleeping thread would wake too late
  if (barrier_())
    return Status::ok();
  BRAID_TRY(device().synchronize());
  return peerFailed("the job has failed");
}

Result<RunTime> PlanTimer::timeOnce(TimedPlan &plan) {
  BRAID_TRY(meet());
  const Clock::time_point start = Clock::now();
  plan.issue(1);
  const double issueUs = 1e6 * secondsSince(start);
  BRAID_TRY(device().synchronize());
  return RunTime{1e6 * secondsSince(start), issueUs};
}

Result<double> PlanTimer::timeRuns(TimedPlan &plan, int64_t runs) {
  BRAID_TRY(meet());
  Stopwatch *stopwatch = device().stopwatch();
  const Clock::time_point start = Clock::now();
  if (stopwatch)
    stopwatch->startClock();
  plan.issue(runs);
  if (stopwatch)
    stopwatch->stopClock();
  BRAID_TRY(device().synchronize());
  const double onHost = 1e6 * secondsSince(start);
  return (stopwatch ? stopwatch->clockedUs() : onHost) / static_cast<double>(runs);
}

/// Returns how many runs of `us` microseconds fit into the budget, clamped to [`least`, `most`].
static int64_t fitting(double budgetUs, double us, int64_t least, int64_t most) {
  return std::clamp(static_cast<int64_t>(std::min(budgetUs / std::max(us, 1.0), 1e6)), least, most);
}

Result<std::vector<double>> PlanTimer::sampleBursts(TimedPlan &plan, double us,
                                                    const BurstEffort &effort) {
  const double burstUs = effort.burstUs > 0 ? effort.burstUs : effort.budgetUs;
  const int64_t runs = fitting(burstUs, us, 2, std::max<int64_t>(2, effort.runs));
  const double allUs = std::max(us, 1.0) * double(runs);
  const int64_t timed = fitting(effort.budgetUs, allUs, effort.least, effort.bursts);
  std::vector<double> times;
  for (int64_t i = -runsToWarmUp(effort.warmUpUs, allUs); i < timed; ++i) {
    const double time = BRAID_TRY(timeRuns(plan, runs));
    if (i >= 0)
      times.push_back(time);
  }
  return maximaOverRanks(control(), times);
}

Result<double> PlanTimer::timeBursts(TimedPlan &plan, double us, const BurstEffort &effort) {
  return median(BRAID_TRY(sampleBursts(plan, us, effort)));
}

Result<double> PlanTimer::warmUpRuns(TimedPlan &plan, const TimingEffort &effort) {
  BRAID_TRY(issueAs(plan, plan.launchMode));
  return warmUp(control(), effort.warmUp, effort.warmUpUs,
                [&]() -> Result<double> { return BRAID_TRY(timeOnce(plan)).us; });
}

Result<std::vector<RunTime>> PlanTimer::sample(TimedPlan &plan, const TimingEffort &effort) {
  const double us = BRAID_TRY(warmUpRuns(plan, effort));
  const int64_t runs = fitting(effort.budgetUs, us, effort.least, effort.most);
  std::vector<double> times; // total and issue time of each run; exchanged all at once
  for (int64_t i = 0; i < runs; ++i) {
    const RunTime time = BRAID_TRY(timeOnce(plan));
    times.insert(times.end(), {time.us, time.issueUs});
  }
  times = BRAID_TRY(maximaOverRanks(control(), times));
  std::vector<RunTime> samples;
  for (size_t i = 0; i < times.size(); i += 2)
    samples.push_back({times[i], times[i + 1]});
  return samples;
}

Result<RunTime> PlanTimer::time(TimedPlan &plan, const TimingEffort &effort) {
  const std::vector<RunTime> samples = BRAID_TRY(sample(plan, effort));
  std::vector<double> times, issues;
  for (const RunTime &each : samples) {
    times.push_back(each.us);
    issues.push_back(each.issueUs);
  }
  return RunTime{median(times), median(issues)};
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
  timed.inputs = BRAID_TRY(tensors_.inputsOf(plan));
  timed.outputs = BRAID_TRY(tensors_.outputsOf(plan));
  BRAID_TRY(issueAs(timed, launchMode));
  return timed;
}

} // namespace braid
