//===- api/timing/plan_timer.h - times Plans on the ranks of a job ----------------------------===//
//
// Each rank times a run with the host's clock, from the release of a barrier across all ranks until
// the rank's work is done. The time of a run is the maximum over all ranks. See shared_tensors.h
// for the input values.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/shared_tensors.h"
#include "runtime/execute/backend.h"
#include "runtime/execute/executor.h"
#include "runtime/simulate/cost_model.h"

#include <deque>
#include <functional>
#include <memory>

namespace braid {

/// The Plans timed on a cluster, one per rank for each program. Devices and the watchdog read the
/// Plans. The Plans may be destroyed once every TimedPlan and PlanTimer that used them has been
/// destroyed, all ranks have synchronized, passed a barrier and called Device::recycle(), and
/// Cluster::setPlans() has registered other Plans. Otherwise, for example after a failure, the
/// Plans must outlive the cluster.
using TimedPlans = std::deque<std::vector<Plan>>;

/// Times in microseconds.
struct RunTime {
  double us = 0;
  double issueUs = 0; ///< time until the host has issued all commands
};

/// A barrier that returns true on all ranks, nearly simultaneously, once every rank has called it.
/// Returns false if the job has failed.
using Barrier = std::function<bool()>;

/// Idle time before each run, in microseconds. All runs have the same idle time, because a
/// power-limited device runs faster after idling (docs/performance.md), and barriers cause idling.
inline constexpr double kIdleGapUs = 30;

/// Limits the effort spent on timing single runs of a Plan. Must be the same on all ranks.
struct TimingEffort {
  int64_t warmUp = 2;
  int64_t least = 3, most = 11; ///< limits on the number of timed runs, which budgetUs determines
  double budgetUs = 20000;
  double warmUpUs = 0; ///< minimum total duration of the warm-up runs
};

/// Limits the effort spent on timing bursts of a Plan. In a burst, runs execute back to back, like
/// the layers of a model. Must be the same on all ranks.
struct BurstEffort {
  int64_t runs = 5;              ///< maximum runs per burst; the budget may allow fewer, at least 2
  int64_t least = 1, bursts = 3; ///< limits on the number of bursts, which budgetUs determines
  double budgetUs = 20000;
  double warmUpUs = 0; ///< minimum total duration of the untimed warm-up bursts
  double burstUs = 0;  ///< approximate duration of a burst; if 0, at most the budget
};

/// Returns the number of floating-point operations of all GEMMs in `plan`.
double flopsOf(const Plan &plan);

/// Performs untimed runs: at least `least`, and enough to take about `warmUpUs`. Returns the last
/// estimate of the microseconds per run, a maximum over all ranks, or 0 if there was no run.
/// Collective; blocks. The first run may be slow because it loads code and data, so the number of
/// runs is estimated from the second run, if any. When the number of runs has doubled, the estimate
/// is updated from the later half, so that one disturbed run does not distort it.
Result<double> warmUp(ControlPlane &control, int64_t least, double warmUpUs,
                      const std::function<Result<double>()> &run);

/// A Plan that is ready to run and can be timed repeatedly. The cluster must outlive this object.
class TimedPlan {
  friend class PlanTimer;
  const std::vector<Plan> *plans = nullptr; ///< the Plans of all ranks
  LaunchMode launchMode = LaunchMode::Eager;
  bool isCaptured = false;
  std::unique_ptr<Prepared> prepared;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  void issue(int64_t runs);

public:
  /// Returns the address of a buffer that is neither an input nor an output of the Plan.
  void *address(uint32_t buffer) const { return prepared->address(buffer); }
};

/// Times Plans on one rank. All ranks must make the same calls, which are collective and return the
/// same results on all ranks. All Plans share device memory, which the destructor frees. The
/// cluster must outlive this object.
class PlanTimer {
public:
  /// If `barrier` is null, uses ControlPlane::allGather() as a barrier, which is less precise.
  PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier = nullptr);

  /// Returns how long, in microseconds, a run with `flops` floating-point operations must be
  /// repeated before clock rates are steady, because large GEMMs draw more power than a GPU can
  /// sustain for long. Returns 0 if `flops` is small, or if the host's cores compute the GEMMs.
  double warmUpTimeUs(double flops);

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return cluster_.ranks(); }
  int64_t ranksPerHost() const { return cluster_.ranksPerHost().value_or(ranks()); }
  Device &device() { return cluster_.device(rank_); }
  ControlPlane &control() { return cluster_.control(rank_); }

  /// Prepares a Plan, and records its graph if `launchMode` is Graph. Returns Unsupported if the
  /// device does not support `transferMode`.
  Result<TimedPlan> makeReady(std::vector<Plan> plans, LaunchMode launchMode,
                              TransferMode transferMode);
  /// Sets the launch mode for subsequent runs, and records a graph if necessary.
  Status issueAs(TimedPlan &plan, LaunchMode launchMode);
  /// Performs the warm-up runs specified by `effort`. Returns the microseconds per run. Blocks.
  Result<double> warmUpRuns(TimedPlan &plan, const TimingEffort &effort);
  /// Warms up and times runs that start at a barrier. Returns each run's maximum time. Blocks.
  Result<std::vector<RunTime>> sample(TimedPlan &plan, const TimingEffort &effort);
  /// Returns the medians of sample().
  Result<RunTime> time(TimedPlan &plan, const TimingEffort &effort);
  /// Times one run that starts at a barrier. `plan` must be the last Plan issued or timed. Blocks.
  Result<RunTime> timeOnce(TimedPlan &plan);
  /// Issues `runs` runs back to back and waits for them. Returns the average microseconds per run,
  /// measured between two events on the device, or by the host's clock if the device has no events.
  Result<double> timeRuns(TimedPlan &plan, int64_t runs);
  /// Returns the microseconds per run in each timed burst. `us` is the approximate time of one run
  /// and must be the same on all ranks. Blocks.
  Result<std::vector<double>> sampleBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Returns the median of sampleBursts().
  Result<double> timeBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Returns rank 0's `mine` on every rank.
  Result<std::string> fromRankZero(std::string mine);
  /// Returns the maximum of `mine` over all ranks, on every rank.
  Result<double> largest(double mine);

private:
  Status meet();

  Cluster &cluster_;
  const int64_t rank_;
  TimedPlans &plans_;
  const Barrier barrier_;
  SharedTensors tensors_;
  uint32_t nextCommand_ = uint32_t(1) << 31; ///< see Plan::firstCommand; unused by sessions
};

} // namespace braid
