//===- api/timing/rank_times.h - one run by the clock, and the slowest rank of all ------------===//
//
// A run is timed from the moment when all ranks have met until the rank's own work is done, by the
// host's clock; what counts is the maximum over ranks.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/executor.h"
#include "runtime/simulate/cost_model.h"

#include <functional>

namespace braid {

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

/// Rests, and comes to `barrier`. If the job has failed, says why as far as `device` knows, or
/// PeerFailed.
Status meetAt(const Barrier &barrier, Device &device, double idleGapUs = kIdleGapUs);

/// One run at these addresses, and until it is done. A graph's are those of its capture. Blocks.
Result<RunTime> timeRun(Prepared &prepared, Device &device, LaunchMode launchMode,
                        llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);

/// Issues `runs` runs back to back and waits for them. Returns the microseconds of each on average,
/// between two events on the device, or by the host's clock where the device has none.
/// Addresses as those of timeRun(). Blocks.
Result<double> timeBurst(Prepared &prepared, Device &device, LaunchMode launchMode, int64_t runs,
                         llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);

/// Number by number the largest of all ranks'. Collective; blocks. BadInput if the
/// ranks have different numbers of them.
Result<std::vector<double>> maximaOverRanks(ControlPlane &control, const std::vector<double> &mine);

/// The number of untimed runs if a run takes `us`, which is 0 while that is not known; the same on
/// every rank.
using RunsFor = std::function<int64_t(double us)>;

/// Runs untimed, as often as `runsFor` says. Returns the microseconds of one, as they were decided
/// by last: the maximum over ranks; 0 if there was no run. Collective; blocks.
///
/// The first run may load what the others find, so the decision is made after the second, unless
/// there is only one. A run can be disturbed, and many may follow, so it is made again, from the
/// later half, whenever there are twice as many.
Result<double> warmUp(ControlPlane &control, const RunsFor &runsFor,
                      const std::function<Result<double>()> &run);

/// The number of runs that take about `warmUpUs`; while `us` is not known, as many as tell it.
int64_t runsToWarmUp(double warmUpUs, double us);

} // namespace braid
