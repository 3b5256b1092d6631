//===- api/ranks/run_memory.h - the memory that a run needs -----------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/memory_limit.h"

namespace braid {

/// Returns the total size in bytes of the caller's tensors for one run on one rank.
int64_t argumentBytes(const Plan &plan);

/// Returns the host memory needed by a run on all ranks, with `hosted` ranks per process: tensors,
/// arenas in host memory, and memory for threads and GEMMs. `plans` has one Plan per rank.
MemoryNeed runMemory(llvm::ArrayRef<Plan> plans, const Backend &backend, int64_t runsInFlight,
                     int64_t hosted);

} // namespace braid
