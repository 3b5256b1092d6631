//===- api/ranks/run_memory.h - the memory that a run needs -----------------------------------===//
#pragma once

#include "api/ranks/run.h"

namespace braid {

/// Returns the maximum number of runs in flight, which is limited to 4 and by the size of the runs'
/// tensors: those of all ranks and runs must fit into 1 GiB, unless there is only one run. Runs in
/// flight overlap and use different addresses.
int64_t runsInFlight(const RunOptions &options, const Plan &plan);

/// Returns Unsupported if the run needs more host memory than is available, for tensors, arenas,
/// threads and GEMMs. `plans` has one Plan per rank. If `areThreads`, all ranks are in this
/// process.
Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads);

} // namespace braid
