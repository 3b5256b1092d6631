//===- backends/cuda/pointwise.cu - element-wise functions ------------------------------------===//
//
// Like sums, these functions are limited by memory bandwidth. A thread loads several groups of
// elements before it computes the first group. A group spans 16 bytes of the type in which
// functions are evaluated, or a single element if any address is not a multiple of the group size.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/element_types.h"
#include "runtime/pointwise_math.h"

namespace braid::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr int kGroups = 4;                             ///< groups that a thread loads at once
constexpr int64_t kTile = int64_t(kThreads) * kGroups; ///< groups per block

/// The type of one load or store.
template <class T, int kWide> struct alignas(sizeof(T) * kWide) Group { T elements[kWide]; };

/// The groups that a thread computes: every kThreads-th group, starting at `begin`. Each block
/// computes one tile of adjacent groups, because this access pattern is the fastest.
template <class T, int kWide> struct Batch {
  using Acc = typename Widened<T>::Type;

  __device__ int64_t at(int g) const { return begin + int64_t(g) * kThreads; }

  template <class From> __device__ void load(const void *data, Acc (&to)[kGroups][kWide]) const {
    Group<From, kWide> read[kGroups] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (at(g) < groups)
        read[g] = static_cast<const Group<From, kWide> *>(data)[at(g)];
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        to[g][i] = static_cast<Acc>(read[g].elements[i]);
  }

  __device__ void load(const Pointwise::Operand &operand, Acc (&to)[kGroups][kWide]) const {
    if (operand.isAccumulator)
      load<Acc>(operand.data, to);
    else
      load<T>(operand.data, to);
  }

  template <PointwiseFunction function> __device__ void applyTo(const Pointwise::Operand &operand) {
    Acc other[kGroups][kWide] = {};
    if (operand.data)
      load(operand, other);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        values[g][i] = applyPointwise(function, values[g][i], other[g][i]);
  }

  __device__ void apply(const Pointwise::Step &step) {
    switch (step.function) {
#define BRAID_POINTWISE(Function, ...)                                                             \
  case PointwiseFunction::Function:                                                                \
    return applyTo<PointwiseFunction::Function>(step.operand);
#include "ir/pointwise_functions.def"
    }
  }

  template <class To> __device__ void store(void *data) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      Group<To, kWide> result;
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        result.elements[i] = static_cast<To>(values[g][i]);
      if (at(g) < groups)
        static_cast<Group<To, kWide> *>(data)[at(g)] = result;
    }
  }

  int64_t groups, begin;
  Acc values[kGroups][kWide];
};

template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
    pointwiseKernel(const __grid_constant__ Pointwise work) {
  Batch<T, kWide> batch{work.elements / kWide, blockIdx.x * kTile + threadIdx.x, {}};
  batch.load(work.first, batch.values);
#pragma unroll 1
  for (uint32_t i = 0; i < work.count; ++i)
    batch.apply(work.steps[i]);
  if (work.dst.isAccumulator)
    batch.template store<typename Batch<T, kWide>::Acc>(const_cast<void *>(work.dst.data));
  else
    batch.template store<T>(const_cast<void *>(work.dst.data));
}

using Kernel = void (*)(Pointwise);

/// Returns the number of elements in a group.
int64_t widthOf(Element element) { return element == Element::F64 ? 2 : 4; }

Kernel kernelFor(Element element, bool isWide) {
  return withElement(element, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return isWide ? pointwiseKernel < T, sizeof(T) == 8 ? 2 : 4 > : pointwiseKernel<T, 1>;
  });
}

bool isAligned(const Pointwise &work, const Pointwise::Operand &operand) {
  const int64_t group = operand.isAccumulator ? 16 : widthOf(work.element) * sizeOf(work.element);
  return reinterpret_cast<uintptr_t>(operand.data) % uintptr_t(group) == 0;
}

/// Returns true if every operand is aligned and divides evenly into groups.
bool canBeWide(const Pointwise &work) {
  bool isWide = work.elements % widthOf(work.element) == 0 && isAligned(work, work.first) &&
                isAligned(work, work.dst);
  for (uint32_t i = 0; i < work.count; ++i)
    isWide = isWide && isAligned(work, work.steps[i].operand);
  return isWide;
}

} // namespace

void launchPointwise(cudaStream_t stream, const Pointwise &work) {
  if (work.elements == 0)
    return;
  const bool isWide = canBeWide(work);
  const int64_t groups = isWide ? work.elements / widthOf(work.element) : work.elements;
  const auto blocks = static_cast<unsigned>((groups + kTile - 1) / kTile);
  kernelFor(work.element, isWide)<<<blocks, kThreads, 0, stream>>>(work);
}

cudaError_t loadPointwise() {
  KernelLoader loader;
  for (Element element : kElements)
    for (bool isWide : {false, true})
      loader.load(kernelFor(element, isWide));
  return loader.code();
}

} // namespace braid::cuda
