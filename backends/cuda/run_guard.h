//===- backends/cuda/run_guard.h - notices runs of one program that overlap -------------------===//
//
// Runs of a program share its flags and buffers, so they must follow one another. Braid orders
// those that it issues; graphs that hold runs are launched by the caller, at any time and on any
// stream. So runs are counted on the GPU, where they begin and where they end. A run that begins
// while an earlier one has not ended is reported to the host.
//
// In a caller's graph the first and the last kernel that signal or wait for peers count
// (copy_and_signal.h): kernels that only count would take 2 to 3 us of each run. A run that has no
// such kernel, and a run that is issued beside a caller's graph, begins and ends with a kernel that
// counts.
//
// Compiled by nvcc and by the host's compiler; names no fmt or LLVM type.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// In the host's memory: written by the GPU, read by the host.
struct RunReport {
  uint32_t begun, ended; ///< runs, modulo 2^32
  uint32_t overlapped;   ///< not 0: some did
};

struct RunGuard {
  uint32_t *counts = nullptr; ///< two in the GPU's memory, 0 at first: runs begun, and ended
  RunReport *report = nullptr;
};

/// Kernels that only count. A run begins, or ends, when the stream gets here.
void launchRunBegin(cudaStream_t stream, RunGuard guard);
void launchRunEnd(cudaStream_t stream, RunGuard guard);

/// Loads the kernels.
cudaError_t loadRunGuard();

} // namespace braid::cuda
