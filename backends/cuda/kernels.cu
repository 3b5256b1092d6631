//===- backends/cuda/kernels.cu - Braid's small kernels ---------------------------------------===//

#include "backends/cuda/kernels.h"

#include "backends/cuda/element_types.h"
#include "backends/cuda/run_guard.h"

namespace braid::cuda {
namespace {

template <class T, class Bias>
__global__ void broadcastKernel(T *c, const Bias *bias, int64_t count, int64_t n) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    c[i] = static_cast<T>(bias[i % n]);
}

/// Hashes a number with the MurmurHash3 finalizer.
__device__ uint32_t mixed(uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85ebca6b;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35;
  return bits ^ (bits >> 16);
}

template <class T> __global__ void randomKernel(T *dst, int64_t count, uint32_t seed) {
  constexpr float kPerUnit = 1 / 2147483648.0f;
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint32_t bits = mixed(static_cast<uint32_t>(i) ^ mixed(seed + 1));
    dst[i] = static_cast<T>(static_cast<float>(static_cast<int32_t>(bits)) * kPerUnit);
  }
}

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void delayKernel(uint64_t duration) {
  const uint64_t begin = nanoseconds();
  while (nanoseconds() - begin < duration)
    ;
}

constexpr int kThreads = 256;

/// Returns the number of blocks for `count` elements, capped at the number that a GPU can use.
unsigned blocksFor(int64_t count) {
  constexpr int64_t kMaxBlocks = 4096;
  int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <class T, class Bias>
void broadcast(cudaStream_t stream, void *c, const void *bias, int64_t m, int64_t n) {
  if (m * n != 0)
    broadcastKernel<<<blocksFor(m * n), kThreads, 0, stream>>>(
        static_cast<T *>(c), static_cast<const Bias *>(bias), m * n, n);
}

} // namespace

void launchBroadcast(cudaStream_t stream, Element element, void *c, Element biasElement,
                     const void *bias, int64_t m, int64_t n) {
  withElement(biasElement, [&](auto zero) {
    using T = decltype(zero);
    if (element == biasElement)
      broadcast<T, T>(stream, c, bias, m, n);
    else
      broadcast<typename Widened<T>::Type, T>(stream, c, bias, m, n);
  });
}

void launchRandom(cudaStream_t stream, Element element, void *dst, int64_t count, uint32_t seed) {
  withElement(element, [&](auto zero) {
    if (count != 0)
      randomKernel<<<blocksFor(count), kThreads, 0, stream>>>(static_cast<decltype(zero) *>(dst),
                                                              count, seed);
  });
}

void launchDelay(cudaStream_t stream, uint32_t microseconds) {
  delayKernel<<<1, 1, 0, stream>>>(uint64_t(microseconds) * 1000);
}

cudaError_t loadKernels() {
  KernelLoader loader;
  for (Element element : kElements)
    withElement(element, [&](auto zero) {
      using T = decltype(zero);
      loader.load(broadcastKernel<T, T>);
      loader.load(broadcastKernel<typename Widened<T>::Type, T>);
      loader.load(randomKernel<T>);
    });
  loader.load(delayKernel);
  for (cudaError_t code : {loader.code(), loadPointwise(), loadRunGuard(), loadSums()})
    if (code != cudaSuccess)
      return code;
  return cudaSuccess;
}

} // namespace braid::cuda
