//===- backends/cuda/tell_runs.h - reports by kernels that count runs -------------------------===//
//
// Device code for kernels that count runs (run_guard.h).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/run_guard.h"

#include <cuda/atomic>

namespace braid::cuda {

/// Stores `value` to a word in host memory.
__device__ inline void tell(uint32_t &word, uint32_t value) {
  ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>(word).store(
      value, ::cuda::memory_order_relaxed);
}

/// Reports the start of a run. `begun` and `ended` are the numbers of runs that had begun and ended
/// before this run. `ended` may include this run itself, because the kernel that ends a run may be
/// on another stream and may count the run before the kernel that begins the run does.
__device__ inline void tellBegin(const RunGuard &guard, uint32_t begun, uint32_t ended) {
  if (static_cast<int32_t>(ended - begun) < 0)
    tell(guard.report->overlapped, 1);
  tell(guard.report->begun, begun + 1);
}

} // namespace braid::cuda
