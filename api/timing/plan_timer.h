//===- api/timing/plan_timer.h - times Plans on the ranks of a job ----------------------------===//
//
// A run is timed from the moment when all ranks have met until the rank's own work is done, by the
// host's clock; what counts is the maximum over ranks. shared_tensors.h says what inputs hold.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/rank_times.h"
#include "api/timing/shared_tensors.h"
#include "runtime/execute/executor.h"
#include "runtime/simulate/cost_model.h"

#include <deque>
#include <memory>

namespace braid {

/// The Plans that were timed on a cluster, for each program one for each rank. Devices and the
/// watchdog read them. They may go once every TimedPlan and PlanTimer that used them has gone, all
/// ranks have synchronized and met after that, their devices have recycled (Device::recycle), and
/// Cluster::setPlans() has named others. Without these steps, as after a failure, they stay until
/// the cluster has gone.
using TimedPlans = std::deque<std::vector<Plan>>;

/// In microseconds.
struct RunTime {
  double us = 0;
  double issueUs = 0; ///< the part until the host had issued everything
};

/// Returns when all ranks have come to it, as close together as can be, or false if the job has
/// failed.
using Barrier = std::function<bool()>;

/// Microseconds for which a device rests between two runs. A device that is limited by power has
/// more of it for the next run after a rest (docs/performance.md), and a barrier takes some time in
/// any case: so all rows rest alike.
inline constexpr double kIdleGapUs = 30;

/// The number of runs of a Plan that is timed. All ranks do the same.
struct TimingEffort {
  int64_t warmUp = 2;
  int64_t least = 3, most = 11; ///< timed runs; as many of them as fit the budget
  double budgetUs = 20000;
  double warmUpUs = 0; ///< more warm-up runs, until all take about as long as this
};

/// The number of bursts of a Plan that is timed. In a burst runs follow one another, as layers of a
/// model do. All ranks do the same.
struct BurstEffort {
  int64_t runs = 5;              ///< runs of a burst; 2 or more, as many as fit the budget
  int64_t least = 1, bursts = 3; ///< as many of them as fit the budget
  double budgetUs = 20000;
  double warmUpUs = 0; ///< untimed bursts before them, until all take about as long as this
  double burstUs = 0;  ///< about what the runs of one burst take; 0: at most the budget
};

/// Microseconds for which a run of that many operations is repeated until clocks are steady: large
/// GEMMs draw more power than a GPU may have for long, and a GPU that rested has some in reserve. 0
/// for few operations.
double warmUpTimeUs(double operations);

/// A Plan that is ready to run, to be timed more than once. Goes before the cluster.
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
  /// The address of a buffer of the Plan that is no input or output.
  void *address(uint32_t buffer) const { return prepared->address(buffer); }
};

/// One rank of those that time together. Every call is collective: each rank makes the same ones,
/// and gets the same answer. Calls share the device memory that they need, and it goes with this,
/// before the cluster.
class PlanTimer {
public:
  /// Without a barrier they meet by ControlPlane::allGather, which is less close.
  PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier = nullptr);

  /// Microseconds for which a run of these GEMMs is repeated until clocks are steady; 0 where the
  /// host's own cores do the work.
  double warmUpTimeUs(llvm::ArrayRef<PlanMatmul> gemms);

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return cluster_.ranks(); }
  int64_t ranksPerHost() const { return cluster_.ranksPerHost().value_or(ranks()); }
  Device &device() { return cluster_.device(rank_); }
  ControlPlane &control() { return cluster_.control(rank_); }

  /// Medians over some runs, for each of `launchModes` in order. Blocks. `plans` are those of all
  /// ranks. Unsupported if the device does not offer `transferMode`.
  Result<std::vector<RunTime>> time(std::vector<Plan> plans, llvm::ArrayRef<LaunchMode> launchModes,
                                    const TimingEffort &effort = {},
                                    TransferMode transferMode = {});
  /// Prepares one, and records its graph if it is issued as one. Unsupported if the device does not
  /// offer `transferMode`.
  Result<TimedPlan> makeReady(std::vector<Plan> plans, LaunchMode launchMode,
                              TransferMode transferMode);
  /// Has it issued in that way from now on; records its graph if that is not done yet.
  Status issueAs(TimedPlan &plan, LaunchMode launchMode);
  /// Runs a Plan untimed, as `effort` says; returns the microseconds of one such run. Blocks.
  Result<double> warmUpRuns(TimedPlan &plan, const TimingEffort &effort);
  /// Some runs from the barrier on, after the warm-up, each the maximum over ranks. Blocks.
  Result<std::vector<RunTime>> sample(TimedPlan &plan, const TimingEffort &effort);
  /// Their medians.
  Result<RunTime> time(TimedPlan &plan, const TimingEffort &effort);
  /// One run of the Plan that was last issued in some way or timed, from the barrier on. Blocks.
  Result<RunTime> timeOnce(TimedPlan &plan);
  /// Issues `runs` of its runs back to back and waits for them. Returns the microseconds of each on
  /// average, between two events on the device, or by the host's clock where the device has none.
  Result<double> timeRuns(TimedPlan &plan, int64_t runs);
  /// The same Plan's microseconds a run in each of some bursts. `us` is about what a run takes, the
  /// same number on every rank. Blocks.
  Result<std::vector<double>> sampleBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Their median.
  Result<double> timeBursts(TimedPlan &plan, double us, const BurstEffort &effort);
  /// Rank 0's text, on every rank.
  Result<std::string> fromRankZero(std::string mine);
  /// Rank 0's number, on every rank.
  Result<double> numberFromRankZero(double mine);

private:
  Status meet();

  Cluster &cluster_;
  const int64_t rank_;
  TimedPlans &plans_;
  const Barrier barrier_;
  SharedTensors tensors_;
  uint32_t nextCommand_ = uint32_t(1) << 31; ///< the next Plan's first; above those that count
};

} // namespace braid
