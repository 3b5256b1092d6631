//===- backends/cuda/memory/nvshmem_memory.h - the heap of NVSHMEM ----------------------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"

namespace braid {

/// As what makes other providers, and collective: blocks until all ranks have come, or the job
/// fails. One job of a process at a time has it, and none while the process uses NVSHMEM for
/// something else. After a job that failed while it had it, the process has none any more.
Result<std::unique_ptr<SymmetricMemory>> makeNvshmemMemory(ProcessGroup &group,
                                                           ControlPlane &control);

} // namespace braid
