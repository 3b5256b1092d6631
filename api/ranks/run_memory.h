//===- api/ranks/run_memory.h - how much memory a run takes ----------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/memory_limit.h"

namespace braid {

/// Bytes of the caller's tensors of one run on one rank.
int64_t argumentBytes(const Plan &plan);

/// Memory of the host that a run of all ranks takes, with `hosted` of them in a process: tensors,
/// arenas where they lie on the host, and what threads and GEMMs need. `plans` are those of all
/// ranks, at least one.
MemoryNeed runMemory(llvm::ArrayRef<Plan> plans, const Backend &backend, int64_t runsInFlight,
                     int64_t hosted);

} // namespace braid
