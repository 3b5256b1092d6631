//===- backends/cuda/joined_product.h - products of several blocks as one kernel --------------===//
//
// A pipeline multiplies block after block, each when it has come. As launches of their own, products
// leave processors idle where one ends and the next begins, and each is cut where a block ends and
// not where a wave of tiles does. Here they are parts of one product: its tiles are taken in the
// order of the parts, by as many blocks of threads as the GPU has processors, and what loads a tile
// first waits until the words of its part are set.
//
// Only one thread looks at the words, in the first block; the others look at a counter of the GPU,
// which says how many have passed. A block that waits keeps its processor, so nothing that a peer
// waits for may need one: copies have to be made by engines, and signals by memory operations.
//
// For compute capability 9.0, whose tensor cores (wgmma), tensor memory copies and clusters it uses.
// Compiled by nvcc and by the host's compiler; names no fmt or LLVM type.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/exchange.h"
#include "backends/cuda/kernels.h"

#include <cuda.h>

namespace braid::cuda {

/// c[rows, n] = a[rows, k] · b, when the first `waits` words of the product are set.
struct JoinedPart {
  uint32_t rows;
  uint32_t waits;
};

/// Passed to the kernel by value.
struct JoinedProduct {
  static constexpr uint32_t kMost = 32; ///< of parts, and of words

  // Maps of row-major matrices of two-byte elements, with boxes as below and swizzles of 128 bytes.
  CUtensorMap a[kMost], c[kMost]; ///< of each part
  CUtensorMap b;                  ///< [k, n], or [n, k] if transposed
  JoinedPart parts[kMost];
  /// In the host's memory, which a stuck run is released by: all words are set to more than 1.
  ExchangeWord words[kMost];
  uint32_t partCount = 0, wordCount = 0;
  uint32_t n = 0, k = 0;
  uint32_t *step = nullptr; ///< of the stream, see ExchangeWord
  /// kCounters of them in the GPU's memory, 0 before and after; no product that may run at the same
  /// time has the same ones.
  uint32_t *counters = nullptr;
  static constexpr uint32_t kCounters = 2;
};

/// What a box of a map covers: rows and columns.
struct JoinedBox {
  uint32_t rows, columns;
};
constexpr JoinedBox kBoxOfA{128, 64}, kBoxOfB{64, 64}, kBoxOfTransposedB{128, 64}, kBoxOfC{64, 64};

/// BF16 or F16. n and k are multiples of 8 and at least 8, addresses of 16 bytes.
void launchJoinedProduct(cudaStream_t stream, Element element, bool transposeB,
                         const JoinedProduct &product, int processors);

/// Loads the kernels. Fails where the GPU is none that they are for.
cudaError_t loadJoinedProduct();

} // namespace braid::cuda
