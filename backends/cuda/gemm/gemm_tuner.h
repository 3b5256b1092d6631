//===- backends/cuda/gemm/gemm_tuner.h - finds the fastest algorithm of a GEMM ----------------===//
//
// The library's heuristic guesses well, but its first guess is often 5 to 15 % slower than another
// on its list, or on that for larger GEMMs. So all of these are tried, and the best compared.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

struct TunedGemm {
  LtGemm::Algorithm algorithm;
  double microseconds; ///< per GEMM of many; operands are not in the cache if there is room
};

/// As many GEMMs at once are measured where a GEMM overlaps with others.
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
