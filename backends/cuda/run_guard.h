//===- backends/cuda/run_guard.h - notices runs of one program that overlap -------------------===//
//
// Runs of a program share its flags and buffers, so they must follow one another. Braid orders
// those that it issues; graphs that hold runs are launched by the caller, at any time and on any
// stream. So a run in such a graph begins and ends with a kernel that counts: a run that begins
// while another one has not ended says so to the host.
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

/// A run begins, or ends, when the stream gets here.
void launchRunBegin(cudaStream_t stream, RunGuard guard);
void launchRunEnd(cudaStream_t stream, RunGuard guard);

/// Loads the kernels.
cudaError_t loadRunGuard();

} // namespace braid::cuda
