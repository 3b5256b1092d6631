//===- api/timing/rank_times.h - the times of the slowest rank --------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

#include <functional>

namespace braid {

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
