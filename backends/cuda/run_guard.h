//===- backends/cuda/run_guard.h - detects overlapping runs of one program --------------------===//
//
// Runs of a program share its flags and buffers, so they must not overlap. Braid orders the runs
// that it issues, but callers launch graphs that contain runs at any time and on any stream. So the
// GPU counts the beginning and the end of each run, and reports a run that begins before an earlier
// one has ended.
//
// In a caller's graph, the first and the last kernel that signal or wait for peers do the counting
// (copy_and_signal.h): separate kernels would take 2 to 3 us of each run. A run without such
// kernels, and a run that is issued concurrently with a caller's graph, begins and ends with a
// separate counting kernel.
//
// Compiled by nvcc and by the host's compiler; uses no fmt or LLVM type.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// A report in host memory, written by the GPU and read by the host.
struct RunReport {
  uint32_t begun, ended; ///< number of runs, modulo 2^32
  uint32_t overlapped;   ///< not 0 if runs have overlapped
};

struct RunGuard {
  uint32_t *counts = nullptr; ///< in GPU memory, initially 0: number of runs begun and ended
  RunReport *report = nullptr;
};

/// Launches kernels that only count the beginning or the end of a run, in stream order.
void launchRunBegin(cudaStream_t stream, RunGuard guard);
void launchRunEnd(cudaStream_t stream, RunGuard guard);

/// Loads the kernels.
cudaError_t loadRunGuard();

} // namespace braid::cuda
