//===- backends/cuda/gemm/gemm_tuner.h - finds the fastest algorithm of a product -===//
//
// The library's heuristic guesses well, but its first guess is often 5 to 15 % slower than another
// on its list, or on that for larger products. So all of these are tried, and the best compared.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

struct TunedProduct {
  LtProduct::Algorithm algorithm;
  double microseconds; ///< of each of many products; operands come from memory if there is room
};

/// As many products at once are measured where a product overlaps with others.
inline constexpr size_t kOverlapping = 2;

/// Measures what `product`, whose shape is that of `shape` at aligned addresses and without a bias,
/// takes with the algorithms that the library has for it: one behind the other, or, if it overlaps
/// with others, dealt out to kOverlapping streams. The library's first guess is kept unless another
/// is faster by more than the noise. Takes about `atMost`, and more if that is too little to
/// compare two. Allocates and frees device memory for the operands; blocks until the device is
/// idle. `workspaces`: kOverlapping of them.
///
/// Every algorithm that is tried is loaded here, so no peer may depend on this device meanwhile.
Result<TunedProduct> tuneProduct(LtProduct &product, const PlanMatmul &shape,
                                 llvm::ArrayRef<void *> workspaces,
                                 std::chrono::milliseconds atMost);

} // namespace braid
