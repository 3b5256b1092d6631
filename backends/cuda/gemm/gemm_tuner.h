//===- backends/cuda/gemm/gemm_tuner.h - finds the fastest algorithm of a GEMM ----------------===//
//
// The first guess of the library's heuristic is often 5 to 15 % slower than another entry of its
// list, or of its list for larger GEMMs. So the tuner tries all of these, and compares the best.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

struct TunedGemm {
  LtGemm::Algorithm algorithm;
  double microseconds; ///< per GEMM in a series; operands are not in the cache, if memory suffices
};

/// Number of concurrent GEMMs in the measurement of a GEMM that overlaps with others.
inline constexpr size_t kOverlapping = 2;

/// Measures what `gemm`, whose shape is that of `shape` at aligned addresses and without a bias,
/// takes with the algorithms that the library has for it: one behind the other, or, if it overlaps
/// with others, issued round-robin to kOverlapping streams. The library's first guess is kept
/// unless another is faster by more than the noise. Takes about `atMost`, and more if that is too
/// little to compare two. Allocates and frees device memory for the operands; blocks until the
/// device is idle. `workspaces`: kOverlapping of them.
///
/// Every algorithm that is tried is loaded here, so no peer may depend on this device meanwhile.
Result<TunedGemm> tuneGemm(LtGemm &gemm, const PlanMatmul &shape, llvm::ArrayRef<void *> workspaces,
                           std::chrono::milliseconds atMost);

} // namespace braid
