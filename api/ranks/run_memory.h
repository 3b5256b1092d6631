//===- api/ranks/run_memory.h - the memory that a run takes -----------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/memory_limit.h"

namespace braid {

/// Returns the number of bytes of the caller's tensors for one run on one rank.
int64_t argumentBytes(const Plan &plan);

/// Returns the host memory that a run of all ranks takes, with `hosted` of them in one process:
/// tensors, arenas in host memory, and the needs of threads and GEMMs. `plans` are those of all
/// ranks, and must not be empty.
MemoryNeed runMemory(llvm::ArrayRef<Plan> plans, const Backend &backend, int64_t runsInFlight,
                     int64_t hosted);

} // namespace braid
