//===- api/timing/plan_timer.h - times Plans on the ranks of a job ----------------------------===//
//
// A run is timed by the host's clock, from when all ranks have met until the rank's work is done.
// The time of a run is the maximum over ranks. shared_tensors.h describes the values of inputs.
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

/// The Plans that were timed on a cluster, one for each rank of each program. Devices and the
/// watchdog read them. They may be destroyed after every TimedPlan and PlanTimer that used them has
/// been destroyed, all ranks have synchronized and met, their devices have recycled
/// (Device::recycle), and Cluster::setPlans() has registered others. Without these steps, as after
/// a failure, they must outlive the cluster.
using TimedPlans = std::deque<std::vector<Plan>>;

/// Times in microseconds.
struct RunTime {
  double us = 0;
  double issueUs = 0; ///< time until the host had issued everything
};

/// Returns when all ranks have called it, as close together as possible, or false if the job has
/// failed.
using Barrier = std::function<bool()>;

/// Microseconds of rest between two runs. A device that power limits has more power for the run
/// after a rest (docs/performance.md), and a barrier takes some time in any case, so all rows rest
/// for the same time.
inline constexpr double kIdleGapUs = 30;

/// The number of timed runs of a Plan. All ranks must use the same values.
struct TimingEffort {
  int64_t warmUp = 2;
  int64_t least = 3, most = 11; ///< the number of timed runs; as many as fit the budget
  double budgetUs = 20000;
  double warmUpUs = 0; ///< minimum duration of all warm-up runs
};

/// The number of timed bursts of a Plan. In a burst, runs follow one another like the layers of a
/// model. All ranks must use the same values.
struct BurstEffort {
  int64_t runs = 5;              ///< runs of a burst; at least 2, as many as fit the budget
  int64_t least = 1, bursts = 3; ///< the number of bursts; as many as fit the budget
  double budgetUs = 20000;
  double warmUpUs = 0; ///< minimum duration of all untimed bursts before them
  double burstUs = 0;  ///< approximate duration of one burst; 0 means at most the budget
};

/// Returns for how many microseconds a run of that many operations must be repeated until clocks
/// are steady: large GEMMs draw more power than a GPU can sustain, and a rested GPU has reserves.
/// Returns 0 for few operations.
double warmUpTimeUs(double operations);

/// Makes `least` untimed runs, or more that take about `warmUpUs`. Returns the last estimate of a
/// run in microseconds, which is a maximum over ranks; 0 if there was no run. Collective; blocks.
/// The first run may load what later runs find, so the number is decided after the second, unless
/// there is only one. A disturbed run could cause many others, so it is decided again, from the
/// later half, whenever the number of runs has doubled.
Result<double> warmUp(ControlPlane &control, int64_t least, double warmUpUs,
                      const std::function<Result<double>()> &run);

/// A Plan that is ready to run, and can be timed repeatedly. The cluster must outlive it.
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
  /// Returns the address of a buffer of the Plan that is neither input nor output.
  void *address(uint32_t buffer) const { return prepared->address(buffer); }
};

/// Times Plans on one rank. All calls are collective: each rank must make the same calls, and gets
/// the same results. Calls share device memory, which the destructor frees. The cluster must
/// outlive this object.
class PlanTimer {
public:
  /// Without a barrier, ranks meet in ControlPlane::allGather, which is less precise.
  PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier = nullptr);

  /// Returns for how many microseconds a run of these GEMMs must be repeated until clocks are
  /// steady; 0 if the host's cores compute.
  double warmUpTimeUs(llvm::ArrayRef<PlanMatmul> gemms);

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return cluster_.ranks(); }
  int64_t ranksPerHost() const { return cluster_.ranksPerHost().value_or(ranks()); }
  Device &device() { return cluster_.device(rank_); }
  ControlPlane &control() { return cluster_.control(rank_); }

  /// Returns the median of some runs for each of `launchModes`, in order. Blocks. `plans` are those
  /// of all ranks. Returns Unsupported if the device does not offer `transferMode`.
  Result<std::vector<RunTime>> time(std::vector<Plan> plans, llvm::ArrayRef<LaunchMode> launchModes,
                                    const TimingEffort &effort = {},
                                    TransferMode transferMode = {});
  /// Prepares a Plan, and records its graph if `launchMode` is Graph. Returns Unsupported if the
  /// device does not offer `transferMode`.
  Result<TimedPlan> makeReady(std::vector<Plan> plans, LaunchMode launchMode,
                              TransferMode transferMode);
  /// Sets the launch mode of the next runs; records the graph if necessary.
  Status issueAs(TimedPlan &plan, LaunchMode launchMode);
  /// Runs a Plan untimed as `effort` says. Returns the microseconds of one such run. Blocks.
  Result<double> warmUpRuns(TimedPlan &plan, const TimingEffort &effort);
  /// Times runs after the warm-up, each from the barrier on; maxima over ranks. Blocks.
  Result<std::vector<RunTime>> sample(TimedPlan &plan, const TimingEffort &effort);
  /// Returns the medians of sample().
  Result<RunTime> time(TimedPlan &plan, const TimingEffort &effort);
  /// Times one run from the barrier on. `plan` must be the last one issued or timed. Blocks.
  Result<RunTime> timeOnce(TimedPlan &plan);
  /// Issues `runs` runs back to back and waits for them. Returns the average in microseconds,
  /// measured between two events on the device, or by the host's clock if the device has no events.
  Result<double> timeRuns(TimedPlan &plan, int64_t runs);
  /// Returns the microseconds of a run in each of some bursts. `us` is the approximate time of a
  /// run, and must be equal on all ranks. Blocks.
  Result<std::vector<double>> sampleBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Returns the median of sampleBursts().
  Result<double> timeBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Returns rank 0's text on every rank.
  Result<std::string> fromRankZero(std::string mine);
  /// Returns the largest of all ranks' numbers on every rank.
  Result<double> largest(double mine);

private:
  Status meet();

  Cluster &cluster_;
  const int64_t rank_;
  TimedPlans &plans_;
  const Barrier barrier_;
  SharedTensors tensors_;
  uint32_t nextCommand_ = uint32_t(1) << 31; ///< the next Plan's first command; above ordinary ones
};

} // namespace braid
