//===- backends/cuda/sum.cu - the sum of partial results ------------------===//

#include "backends/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace braid::cuda {
namespace {

template <class T> struct Widened { using Type = float; };
template <> struct Widened<double> { using Type = double; };

template <class T, class Partial> __global__ void sumKernel(Sum sum) {
  using Acc = typename Widened<T>::Type;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < sum.elements; i += step) {
    Acc total = 0;
    for (int64_t part = 0; part < sum.count; ++part)
      total += static_cast<Acc>(reinterpret_cast<const Partial *>(
          static_cast<const char *>(sum.parts) + part * sum.stride)[i]);
    if (sum.bias)
      total += static_cast<Acc>(static_cast<const T *>(sum.bias)[i % sum.biasElements]);
    static_cast<T *>(sum.dst)[i] = static_cast<T>(total);
  }
}

template <class T, class Partial> void launch(cudaStream_t stream, const Sum &sum) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 1024;
  const int64_t blocks = (sum.elements + kThreads - 1) / kThreads;
  sumKernel<T, Partial><<<blocks < kMostBlocks ? blocks : kMostBlocks, kThreads, 0, stream>>>(sum);
}

template <class T> void launchOf(cudaStream_t stream, const Sum &sum) {
  if (sum.partial == sum.element)
    return launch<T, T>(stream, sum);
  return launch<T, float>(stream, sum);
}

} // namespace

void launchSum(cudaStream_t stream, const Sum &sum) {
  switch (sum.element) {
  case Element::BF16:
    return launchOf<__nv_bfloat16>(stream, sum);
  case Element::F16:
    return launchOf<__half>(stream, sum);
  case Element::F32:
    return launchOf<float>(stream, sum);
  case Element::F64:
    return launchOf<double>(stream, sum);
  }
}

} // namespace braid::cuda
