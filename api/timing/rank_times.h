//===- api/timing/rank_times.h - the times of the slowest rank --------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

#include <functional>

namespace braid {

/// Returns the elementwise maxima over all ranks. Collective; blocks. Returns BadInput if the ranks
/// pass different numbers of values.
Result<std::vector<double>> maximaOverRanks(ControlPlane &control, const std::vector<double> &mine);

/// Returns the number of runs that take about `warmUpUs`, or a few to measure if `us` is 0.
int64_t runsToWarmUp(double warmUpUs, double us);

/// Makes `least` untimed runs, or more that take about `warmUpUs`. Returns the last estimate of a
/// run in microseconds, which is a maximum over ranks; 0 if there was no run. Collective; blocks.
/// The first run may load what later runs find, so the number is decided after the second, unless
/// there is only one. A disturbed run could cause many others, so it is decided again, from the
/// later half, whenever the number of runs has doubled.
Result<double> warmUp(ControlPlane &control, int64_t least, double warmUpUs,
                      const std::function<Result<double>()> &run);

} // namespace braid
