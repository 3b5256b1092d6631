//===- backends/cuda/kernels.cu - our own kernels ---------------------------------------------===//

#include "backends/cuda/kernels.h"

#include "backends/cuda/run_guard.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace braid::cuda {
namespace {

template <class T, class Bias>
__global__ void broadcastKernel(T *c, const Bias *bias, int64_t count, int64_t n) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    c[i] = static_cast<T>(bias[i % n]);
}

/// A number's bits, mixed: the finaliser of MurmurHash3.
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

/// Enough blocks for `count` elements, or for the whole GPU.
unsigned blocksFor(int64_t count) {
  constexpr int64_t kMaxBlocks = 4096;
  int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <class T, class Bias = T>
void broadcast(cudaStream_t stream, void *c, const void *bias, int64_t m, int64_t n) {
  if (m * n != 0)
    broadcastKernel<T, Bias><<<blocksFor(m * n), kThreads, 0, stream>>>(
        static_cast<T *>(c), static_cast<const Bias *>(bias), m * n, n);
}

void broadcastToFloats(cudaStream_t stream, void *c, Element biasElement, const void *bias,
                       int64_t m, int64_t n) {
  if (biasElement == Element::BF16)
    return broadcast<float, __nv_bfloat16>(stream, c, bias, m, n);
  if (biasElement == Element::F16)
    return broadcast<float, __half>(stream, c, bias, m, n);
  broadcast<float>(stream, c, bias, m, n);
}

template <class T> void random(cudaStream_t stream, void *dst, int64_t count, uint32_t seed) {
  if (count != 0)
    randomKernel<T><<<blocksFor(count), kThreads, 0, stream>>>(static_cast<T *>(dst), count, seed);
}

} // namespace

void launchBroadcast(cudaStream_t stream, Element element, void *c, Element biasElement,
                     const void *bias, int64_t m, int64_t n) {
  switch (element) {
  case Element::BF16:
    return broadcast<__nv_bfloat16>(stream, c, bias, m, n);
  case Element::F16:
    return broadcast<__half>(stream, c, bias, m, n);
  case Element::F32:
    return broadcastToFloats(stream, c, biasElement, bias, m, n);
  case Element::F64:
    return broadcast<double>(stream, c, bias, m, n);
  }
}

void launchRandom(cudaStream_t stream, Element element, void *dst, int64_t count, uint32_t seed) {
  switch (element) {
  case Element::BF16:
    return random<__nv_bfloat16>(stream, dst, count, seed);
  case Element::F16:
    return random<__half>(stream, dst, count, seed);
  case Element::F32:
    return random<float>(stream, dst, count, seed);
  case Element::F64:
    return random<double>(stream, dst, count, seed);
  }
}

void launchDelay(cudaStream_t stream, uint32_t microseconds) {
  delayKernel<<<1, 1, 0, stream>>>(uint64_t(microseconds) * 1000);
}

cudaError_t loadKernels() {
  cudaFuncAttributes attributes;
  const void *kernels[] = {
      reinterpret_cast<const void *>(broadcastKernel<__nv_bfloat16, __nv_bfloat16>),
      reinterpret_cast<const void *>(broadcastKernel<__half, __half>),
      reinterpret_cast<const void *>(broadcastKernel<float, float>),
      reinterpret_cast<const void *>(broadcastKernel<float, __nv_bfloat16>),
      reinterpret_cast<const void *>(broadcastKernel<float, __half>),
      reinterpret_cast<const void *>(broadcastKernel<double, double>),
      reinterpret_cast<const void *>(randomKernel<__nv_bfloat16>),
      reinterpret_cast<const void *>(randomKernel<__half>),
      reinterpret_cast<const void *>(randomKernel<float>),
      reinterpret_cast<const void *>(randomKernel<double>),
      reinterpret_cast<const void *>(delayKernel),
  };
  for (const void *kernel : kernels)
    if (cudaError_t code = cudaFuncGetAttributes(&attributes, kernel); code != cudaSuccess)
      return code;
  if (cudaError_t code = loadPointwise(); code != cudaSuccess)
    return code;
  if (cudaError_t code = loadRunGuard(); code != cudaSuccess)
    return code;
  return loadSums();
}

} // namespace braid::cuda
