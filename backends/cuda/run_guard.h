//===- backends/cuda/run_guard.h - detects overlapping runs of one program --------------------===//
//
// Runs of a program share its flags and buffers, so they must not overlap. Braid orders the runs
// that it issues, but callers may launch graphs that contain runs at any time and on any stream.
// The GPU therefore counts the starts and ends of runs, and reports any run that begins before an
// earlier run has ended.
//
// In a caller's graph, the first and last kernels that signal or wait for peers also do the
// counting (copy_and_signal.h), because separate kernels would add 2 to 3 us to each run. Separate
// counting kernels are used for runs without signal or wait kernels, and for runs that Braid issues
// after a caller has captured the program.
//
// Compiled by both nvcc and the host compiler; uses no fmt or LLVM types.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// A report in host memory that the GPU writes and the host reads.
struct RunReport {
  uint32_t begun, ended; ///< number of runs, modulo 2^32
  uint32_t overlapped;   ///< nonzero if runs have overlapped
};

struct RunGuard {
  uint32_t *counts = nullptr; ///< two counters in GPU memory, initially 0: runs begun, runs ended
  RunReport *report = nullptr;
};

/// Launch a kernel that only counts the start, or the end, of a run.
void launchRunBegin(cudaStream_t stream, RunGuard guard);
void launchRunEnd(cudaStream_t stream, RunGuard guard);

cudaError_t loadRunGuard();

} // namespace braid::cuda
