//===- backends/cuda/kernels.h - our own kernels, as functions for the host -------------------===//
//
// Compiled by nvcc; this header is not, and names no fmt or LLVM type.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/pointwise_function.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// Element types that kernels add.
enum class Element { BF16, F16, F32, F64 };
inline int64_t sizeOf(Element element) {
  return element == Element::F64 ? 8 : element == Element::F32 ? 4 : 2;
}

/// `dst` becomes the sum of `count` parts, `stride` bytes apart, in their order, in f32 (f64 for
/// f64), plus `bias` again and again (null: none), rounded once. Any address of an element will do.
/// Fastest where parts, stride, dst and bias are multiples of 16 bytes, and biasElements is one of
/// what 16 bytes of a part hold.
struct Sum {
  Element element, partial; ///< type of bias and of parts; equal, or parts are F32 for 16 bits
  int64_t elements, count, stride;
  const void *parts, *bias;
  int64_t biasElements;
  void *dst;
  Element result;         ///< type of dst: `element`, or F32 for 16 bits
  bool keepsParts = true; ///< a kernel that adds along copies also stores the parts in `parts`
};
void launchSum(cudaStream_t stream, const Sum &sum);
/// Elements that a thread adds at once: what 16 bytes hold of a part, or 1 where anything lies
/// elsewhere than at a multiple of that.
int64_t widthFor(const Sum &sum);

/// dst becomes functions of each of `elements` elements of `first`, in f32 (f64 for f64), rounded
/// once. Any address of an element will do; fastest are multiples of 16 bytes, and of 4 elements.
struct Pointwise {
  struct Operand {
    bool isAccumulator; ///< f32 if `element` has 16 bits
    const void *data;   ///< null: none; written, where it is dst
  };
  struct Step {
    PointwiseFunction function;
    Operand operand;
  };
  Element element; ///< type of all operands that are no accumulators
  int64_t elements;
  Operand dst, first;
  uint32_t count; ///< number of steps
  Step steps[8];
};
void launchPointwise(cudaStream_t stream, const Pointwise &work);

/// Every row of c[m, n], whose elements are `element`, becomes `bias`: of the same type, or of 16
/// bits where that is F32.
void launchBroadcast(cudaStream_t stream, Element element, void *c, Element biasElement,
                     const void *bias, int64_t m, int64_t n);

/// Each of `count` elements becomes a value in [-1, 1) drawn from `seed` and its number.
void launchRandom(cudaStream_t stream, Element element, void *dst, int64_t count, uint32_t seed);
/// Keeps the stream busy for so long.
void launchDelay(cudaStream_t stream, uint32_t microseconds);

/// Loads all of the above, so that no launch has to.
cudaError_t loadKernels();
/// Loads what launchSum() launches. Part of loadKernels().
cudaError_t loadSums();
/// The same of launchPointwise().
cudaError_t loadPointwise();

} // namespace braid::cuda
