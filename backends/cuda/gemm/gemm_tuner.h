//===- backends/cuda/gemm/gemm_tuner.h - finds the fastest algorithm for a GEMM ---------------===//
//
// The library's first guess is often 5 to 15 % slower than another candidate that its heuristic
// lists for this GEMM or for larger GEMMs. The tuner therefore tries all of these candidates and
// compares the best ones more thoroughly.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// Number of GEMMs to run concurrently when tuning a GEMM that overlaps with others.
inline constexpr size_t kOverlapping = 2;

/// Measures `gemm` with each candidate algorithm and returns the fastest. `gemm` must have the
/// shape `shape`, aligned addresses and no bias. GEMMs run back to back or, if shape.overlaps is
/// true, round-robin on kOverlapping streams. Prefers the library's first guess unless another
/// algorithm is faster by more than measurement noise. Takes about `atMost`, or longer if `atMost`
/// is too short to compare two algorithms. Allocates and frees device memory for the operands, and
/// blocks until the device is idle. `workspaces` has kOverlapping entries.
///
/// Loads kernels, which may block, so no peer may be waiting for this device during the call.
Result<LtGemm::Algorithm> tuneGemm(LtGemm &gemm, const PlanMatmul &shape,
                                   llvm::ArrayRef<void *> workspaces,
                                   std::chrono::milliseconds atMost);

} // namespace braid
