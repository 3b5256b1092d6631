//===- backends/cuda/gemm/gemm_tuner.h - finds the fastest algorithm of a GEMM ----------------===//
//
// The first guess of the library's heuristic is often 5 to 15 % slower than another entry of its
// list, or of its list for larger GEMMs. So the tuner tries all of these, and compares the best
// ones.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// Number of concurrent GEMMs in the measurement of a GEMM that overlaps with others.
inline constexpr size_t kOverlapping = 2;

/// Measures `gemm` with each of the library's algorithms for it and returns the fastest. Its shape
/// is that of `shape`, with aligned addresses and without a bias. GEMMs run one after the other,
/// or, if they overlap, round-robin on kOverlapping streams. The library's first guess is kept
/// unless another algorithm is faster by more than the noise. Takes about `atMost`, or longer if
/// that is too short to compare two. Allocates and frees device memory for the operands; blocks
/// until the device is idle. `workspaces` has kOverlapping entries.
///
/// Loads every algorithm that is tried, so no peer may depend on this device meanwhile.
Result<LtGemm::Algorithm> tuneGemm(LtGemm &gemm, const PlanMatmul &shape,
                                   llvm::ArrayRef<void *> workspaces,
                                   std::chrono::milliseconds atMost);

} // namespace braid
