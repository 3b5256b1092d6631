//===- api/ranks/run_memory.h - the memory that a run needs -----------------------------------===//
#pragma once

#include "api/ranks/run.h"

namespace braid {

/// Returns the maximum number of runs in flight: at most 4, and few enough that the tensors of all
/// ranks and runs fit into 1 GiB, but at least 1. Runs in flight overlap and use different
/// addresses.
int64_t runsInFlight(const RunOptions &options, const Plan &plan);

/// Returns Unsupported if the run's tensors, arenas, threads and GEMMs need more host memory than
/// is available. `plans` has one Plan per rank. If `areThreads`, all ranks are in this process.
Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads);

} // namespace braid
