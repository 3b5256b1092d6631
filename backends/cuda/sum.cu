//===- backends/cuda/sum.cu - sums of partial results -----------------------------------------===//
//
// Sums are limited by memory bandwidth, because every byte is transferred once and each element
// takes only a few instructions.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/add_groups.h"

#include <algorithm>

namespace braid::cuda {
namespace {

constexpr int kThreads = 128;     ///< few, so that even a small sum uses the whole GPU
constexpr int kBlocksThatFit = 8; ///< per multiprocessor, at 64 registers per thread

/// A block adds one tile of adjacent groups, and each of its threads adds every kThreads-th group,
/// because memory access is fastest with a single tile per block. `sum.count` must not exceed
/// kParts unless kParts is kMostParts.
template <class Types, int kWide, int kParts, int kGroups>
__global__ void __launch_bounds__(kThreads, kBlocksThatFit)
    sumKernel(const __grid_constant__ Sum sum, const __grid_constant__ SumWalk walk) {
  using Place = AloneInKernel<kThreads>;
  constexpr int64_t kTile = int64_t(kThreads) * kGroups;
  addGroups<Place, Types, kWide, kParts, kGroups>(sum, walk, blockIdx.x * kTile + threadIdx.x,
                                                  gridDim.x * kTile);
  addRest<Place, Types, kWide>(sum, walk, int64_t(blockIdx.x) * kThreads + threadIdx.x);
}

struct Kernel {
  void (*launch)(Sum, SumWalk);
  int groups; ///< groups that a thread loads at once
};

/// Returns the kernel for `count` parts. More loads at once would need too many registers.
template <class Types, int kWide> Kernel kernelOf(int64_t count) {
  constexpr int kLoads = kWide > 1 ? 8 : sizeof(typename Types::Partial) == 8 ? 16 : 24;
  if (count <= 2)
    return {sumKernel<Types, kWide, 2, kLoads / 4>, kLoads / 4};
  if (count <= 4)
    return {sumKernel<Types, kWide, 4, kLoads / 4>, kLoads / 4};
  return {sumKernel<Types, kWide, kMostParts, kLoads / kMostParts>, kLoads / kMostParts};
}

Kernel kernelFor(const Sum &sum, bool isWide) {
  return withSumTypes(sum, [&](auto types) {
    using Types = decltype(types);
    return isWide ? kernelOf<Types, 16 / sizeof(typename Types::Partial)>(sum.count)
                  : kernelOf<Types, 1>(sum.count);
  });
}

} // namespace

int64_t widthFor(const Sum &sum) {
  const int64_t wide = 16 / sizeOf(sum.partial);
  const auto parts = reinterpret_cast<uintptr_t>(sum.parts) | uintptr_t(sum.stride);
  auto isGroup = [&](const void *address, Element element) {
    return reinterpret_cast<uintptr_t>(address) % uintptr_t(wide * sizeOf(element)) == 0;
  };
  const bool isAligned = parts % 16 == 0 && isGroup(sum.dst, sum.result) &&
                         isGroup(sum.bias, sum.element) &&
                         (!sum.bias || sum.biasElements % wide == 0);
  return isAligned && sum.elements >= wide ? wide : 1;
}

void launchSum(cudaStream_t stream, const Sum &sum) {
  if (sum.elements == 0)
    return;
  const int64_t wide = widthFor(sum);
  const Kernel kernel = kernelFor(sum, wide > 1);
  const SumWalk walk = sumWalkFor(sum, wide, kThreads);
  const int64_t tile = int64_t(kThreads) * kernel.groups;
  const int64_t blocks = std::min<int64_t>((walk.groups + tile - 1) / tile, INT32_MAX);
  kernel.launch<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(sum, walk);
}

cudaError_t loadSums() {
  KernelLoader loader;
  forAllSumTypes([&](Sum sum) {
    for (int64_t count : {2, 4, kMostParts})
      for (bool isWide : {false, true}) {
        sum.count = count;
        loader.load(kernelFor(sum, isWide).launch);
      }
  });
  return loader.code();
}

} // namespace braid::cuda
