//===- backends/cuda/kernels.h - host functions for Braid's kernels ---------------------------===//
//
// Compiled by both nvcc and the host compiler; uses no fmt or LLVM types.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/pointwise_function.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// The element types that kernels support.
enum class Element { BF16, F16, F32, F64 };
inline int64_t sizeOf(Element element) {
  return element == Element::F64 ? 8 : element == Element::F32 ? 4 : 2;
}

/// dst = the sum of `count` parts, `stride` bytes apart, plus `bias` (null if there is none), which
/// is repeated along dst. Adds the parts in order, in f32 (or in f64 if elements are f64), and
/// rounds once. Operands need only element alignment. Fastest if parts, stride, dst and bias are
/// multiples of 16 bytes and biasElements is a multiple of the elements in 16 bytes of a part.
struct Sum {
  Element element, partial; ///< types of bias and parts: equal, or 16-bit bias and F32 parts
  int64_t elements, count, stride;
  const void *parts, *bias;
  int64_t biasElements;
  void *dst;
  Element result;         ///< type of dst: `element`, or F32 for 16-bit elements
  bool keepsParts = true; ///< whether a kernel that copies and adds also stores `parts`
};
void launchSum(cudaStream_t stream, const Sum &sum);
/// Returns the number of elements in a group that a thread adds at once: as many as fit in 16 bytes
/// of a part, or 1 if any address is not a multiple of the group size.
int64_t widthFor(const Sum &sum);

/// dst = a chain of functions applied to each of the `elements` elements of `first`. Computes in
/// f32 (or in f64 if elements are f64) and rounds once. Operands need only element alignment.
/// Fastest if operands are aligned to 16 bytes and `elements` is a multiple of 4.
struct Pointwise {
  struct Operand {
    bool isAccumulator; ///< the operand is f32 even if `element` has 16 bits
    const void *data;   ///< null if none; written if the operand is dst
  };
  struct Step {
    PointwiseFunction function;
    Operand operand;
  };
  Element element; ///< type of all operands that are not accumulators
  int64_t elements;
  Operand dst, first;
  uint32_t count; ///< number of steps
  Step steps[8];
};
void launchPointwise(cudaStream_t stream, const Pointwise &work);

/// Sets every row of c[m, n], whose element type is `element`, to `bias`. The types of c and `bias`
/// are equal, or `element` is F32 and `biasElement` has 16 bits.
void launchBroadcast(cudaStream_t stream, Element element, void *c, Element biasElement,
                     const void *bias, int64_t m, int64_t n);

/// Sets each of `count` elements to a value in [-1, 1) that depends only on `seed` and the index.
void launchRandom(cudaStream_t stream, Element element, void *dst, int64_t count, uint32_t seed);
/// Launches a kernel that keeps the stream busy for about the given time.
void launchDelay(cudaStream_t stream, uint32_t microseconds);

/// Loads all kernels up front, so that no launch has to load a kernel.
cudaError_t loadKernels();
/// Loads the kernels of launchSum(). Called by loadKernels().
cudaError_t loadSums();
/// Loads the kernels of launchPointwise(). Called by loadKernels().
cudaError_t loadPointwise();

} // namespace braid::cuda
