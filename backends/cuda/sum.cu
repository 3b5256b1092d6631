//===- backends/cuda/sum.cu - the sum of partial results --------------------------------------===//
//
// Memory limits it: every byte passes once, and each element takes a few instructions. So a thread
// asks for all parts of several groups of elements before it adds the first. A group is what 16
// bytes hold of a part, or one element where anything lies elsewhere than at a multiple of that.
//
// Sums begin with 0, which is why what is absent can be added as 0: no sum is -0 then.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace braid::cuda {
namespace {

constexpr uint32_t kThreads = 128; ///< few, so that a small sum, too, is spread over the GPU
constexpr int kMostParts = 8;      ///< of a group that are on their way at once
constexpr int kBlocksThatFit = 8;  ///< on a multiprocessor: 64 registers for each thread

template <class T> struct Widened { using Type = float; };
template <> struct Widened<double> { using Type = double; };

/// What is loaded or stored at once.
template <size_t kBytes> struct Word;
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };
template <> struct Word<32> {
  struct alignas(16) Type {
    uint4 half[2];
  };
};

template <class T, int kWide> struct Group {
  using Acc = typename Widened<T>::Type;
  using Bits = typename Word<sizeof(T) * kWide>::Type;

  T elements[kWide];

  static __device__ Group of(const Bits &bits) {
    Group group;
    memcpy(&group, &bits, sizeof(group));
    return group;
  }
  __device__ Bits bits() const {
    Bits bits;
    memcpy(&bits, this, sizeof(bits));
    return bits;
  }
  __device__ void addTo(Acc (&total)[kWide]) const {
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      total[i] += static_cast<Acc>(elements[i]);
  }
};

/// How the threads share dst. A block takes a tile of neighbouring groups, and each of its threads
/// every kThreads-th of them: the memory is fastest if one tile is all that a block does.
struct Walk {
  int64_t groups;     ///< of dst
  int64_t biasGroups; ///< at least 1
  int64_t biasStep;   ///< kThreads modulo biasGroups
};

/// The numbers in the bias of a thread's groups of a tile, without a division for each.
class BiasWalk {
public:
  __device__ BiasWalk(const Walk &walk, int64_t first)
      : walk_(walk), at_(first < walk.biasGroups ? first : first % walk.biasGroups) {}

  __device__ int64_t next() {
    const int64_t at = at_;
    at_ += walk_.biasStep;
    if (at_ >= walk_.biasGroups)
      at_ -= walk_.biasGroups;
    return at;
  }

private:
  const Walk &walk_;
  int64_t at_;
};

template <class Bits> __device__ const Bits *partOf(const Sum &sum, int64_t part) {
  return reinterpret_cast<const Bits *>(static_cast<const char *>(sum.parts) + part * sum.stride);
}

/// A thread has one of the elements behind the last whole group.
template <class T, class Partial, class Result>
__device__ void sumElement(const Sum &sum, int64_t i) {
  typename Widened<T>::Type total = 0;
#pragma unroll 1
  for (int64_t part = 0; part < sum.count; ++part)
    total += static_cast<decltype(total)>(partOf<Partial>(sum, part)[i]);
  if (sum.bias)
    total += static_cast<decltype(total)>(static_cast<const T *>(sum.bias)[i % sum.biasElements]);
  static_cast<Result *>(sum.dst)[i] = static_cast<Result>(total);
}

/// The groups that a thread adds at a time: from `begin` on, all threads of the block apart.
template <class T, class Partial, class Result, int kWide, int kParts, int kGroups> struct Batch {
  using From = Group<Partial, kWide>;
  using Bias = Group<T, kWide>;
  using To = Group<Result, kWide>;

  __device__ int64_t at(int g) const { return begin + int64_t(g) * kThreads; }

  /// Adds parts `done`, ..., `done + kParts - 1`, or as many as there are. All loads are on their
  /// way before the first sum.
  __device__ void addParts(int64_t done) {
    typename From::Bits read[kGroups][kParts] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        if (at(g) < walk.groups && done + p < sum.count)
          read[g][p] = __ldg(partOf<typename From::Bits>(sum, done + p) + at(g));
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        From::of(read[g][p]).addTo(totals[g]);
  }

  __device__ void store(int g, const typename Bias::Bits &bias) {
    Bias::of(bias).addTo(totals[g]);
    To result;
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      result.elements[i] = static_cast<Result>(totals[g][i]);
    if (at(g) < walk.groups)
      static_cast<typename To::Bits *>(sum.dst)[at(g)] = result.bits();
  }

  const Sum &sum;
  const Walk &walk;
  int64_t begin;
  typename To::Acc totals[kGroups][kWide] = {};
};

/// There are no more parts than kParts, unless that is kMostParts.
template <class T, class Partial, class Result, int kWide, int kParts, int kGroups>
__global__ void __launch_bounds__(kThreads, kBlocksThatFit)
    sumKernel(const __grid_constant__ Sum sum, const __grid_constant__ Walk walk) {
  using Bias = typename Group<T, kWide>::Bits;
  constexpr int64_t kTile = int64_t(kThreads) * kGroups;
  for (int64_t begin = blockIdx.x * kTile + threadIdx.x; begin < walk.groups;
       begin += gridDim.x * kTile) {
    Batch<T, Partial, Result, kWide, kParts, kGroups> batch{sum, walk, begin};
    BiasWalk biasWalk(walk, begin);
    Bias bias[kGroups] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (const int64_t at = biasWalk.next(); sum.bias)
        bias[g] = static_cast<const Bias *>(sum.bias)[at];
    int64_t done = 0;
    do
      batch.addParts(done);
    while (kParts == kMostParts && (done += kParts) < sum.count);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      batch.store(g, bias[g]);
  }
  const int64_t thread = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (const int64_t i = walk.groups * kWide + thread; kWide > 1 && i < sum.elements)
    sumElement<T, Partial, Result>(sum, i);
}

struct Types {
  Element element, partial, result; ///< as in Sum
};

struct Kernel {
  void (*launch)(Sum, Walk);
  int groups; ///< of a thread at a time
};

/// More loads on their way would take more registers than kBlocksThatFit leaves.
template <class T, class Partial, class Result, int kWide> Kernel kernelFor(int64_t count) {
  constexpr int kLoads = kWide > 1 ? 8 : sizeof(Partial) == 8 ? 16 : 24;
  if (count <= 2)
    return {sumKernel<T, Partial, Result, kWide, 2, kLoads / 4>, kLoads / 4};
  if (count <= 4)
    return {sumKernel<T, Partial, Result, kWide, 4, kLoads / 4>, kLoads / 4};
  return {sumKernel<T, Partial, Result, kWide, kMostParts, kLoads / kMostParts>,
          kLoads / kMostParts};
}

template <class T, class Partial, class Result> Kernel kernelFor(int64_t count, bool isWide) {
  return isWide ? kernelFor<T, Partial, Result, 16 / sizeof(Partial)>(count)
                : kernelFor<T, Partial, Result, 1>(count);
}

/// Of 16 bits.
template <class T> Kernel kernelFor(const Types &types, int64_t count, bool isWide) {
  if (types.result == types.element)
    return types.partial == types.element ? kernelFor<T, T, T>(count, isWide)
                                          : kernelFor<T, float, T>(count, isWide);
  return types.partial == types.element ? kernelFor<T, T, float>(count, isWide)
                                        : kernelFor<T, float, float>(count, isWide);
}

Kernel kernelFor(const Types &types, int64_t count, bool isWide) {
  switch (types.element) {
  case Element::BF16:
    return kernelFor<__nv_bfloat16>(types, count, isWide);
  case Element::F16:
    return kernelFor<__half>(types, count, isWide);
  case Element::F32:
    return kernelFor<float, float, float>(count, isWide);
  case Element::F64:
    return kernelFor<double, double, double>(count, isWide);
  }
  return {};
}

int64_t sizeOf(Element element) {
  return element == Element::F64 ? 8 : element == Element::F32 ? 4 : 2;
}

/// Elements in a group.
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

/// 1 where it cannot be told, and then whatever is wrong stops the launch, too.
int64_t multiprocessors() {
  int device = 0, count = 1;
  if (cudaGetDevice(&device) == cudaSuccess)
    (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

} // namespace

void launchSum(cudaStream_t stream, const Sum &sum, int64_t blocksEach) {
  if (sum.elements == 0)
    return;
  const int64_t wide = widthFor(sum), groups = sum.elements / wide;
  const Kernel kernel = kernelFor({sum.element, sum.partial, sum.result}, sum.count, wide > 1);
  const int64_t tile = int64_t(kThreads) * kernel.groups;
  const int64_t tiles = (groups + tile - 1) / tile;
  const int64_t most = blocksEach == 0 ? INT32_MAX : blocksEach * multiprocessors();
  const auto blocks = static_cast<unsigned>(tiles < most ? tiles : most);
  const int64_t biasGroups = sum.bias ? sum.biasElements / wide : 1;
  kernel.launch<<<blocks, kThreads, 0, stream>>>(sum, {groups, biasGroups, kThreads % biasGroups});
}

cudaError_t loadSums() {
  cudaFuncAttributes attributes;
  auto load = [&](const Types &types) {
    cudaError_t code = cudaSuccess;
    for (int64_t count : {2, 4, kMostParts})
      for (bool isWide : {false, true})
        if (code == cudaSuccess)
          code = cudaFuncGetAttributes(
              &attributes, reinterpret_cast<const void *>(kernelFor(types, count, isWide).launch));
    return code;
  };
  for (Element element : {Element::BF16, Element::F16, Element::F32, Element::F64})
    for (Element partial : {element, Element::F32})
      for (Element result : {element, Element::F32})
        if (cudaError_t code = load({element, partial, result}); code != cudaSuccess)
          return code;
  return cudaSuccess;
}

} // namespace braid::cuda
