//===- backends/cuda/tell_runs.h - what kernels report of runs that they count ----------------===//
//
// Device code of kernels that count runs (run_guard.h).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/run_guard.h"

#include <cuda/atomic>

namespace braid::cuda {

/// Stores into a word of the host's memory.
__device__ inline void tell(uint32_t &word, uint32_t value) {
  ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>(word).store(
      value, ::cuda::memory_order_relaxed);
}

/// A run begins, before which `begun` runs had begun and `ended` had ended. One more may have
/// ended: what ends a run may be on another stream, and count before what begins it.
__device__ inline void tellBegin(const RunGuard &guard, uint32_t begun, uint32_t ended) {
  if (static_cast<int32_t>(ended - begun) < 0)
    tell(guard.report->overlapped, 1);
  tell(guard.report->begun, begun + 1);
}

} // namespace braid::cuda
