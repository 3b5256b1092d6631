//===- backends/cuda/element_types.h - C++ types for kernel element types ---------------------===//
//
// Compiled by nvcc only.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace braid::cuda {

constexpr Element kElements[] = {Element::BF16, Element::F16, Element::F32, Element::F64};

/// The type in which kernels add elements and evaluate functions.
template <class T> struct Widened { using Type = float; };
template <> struct Widened<double> { using Type = double; };

/// Returns the result of calling `fn` with a zero of the C++ type for `element`.
template <class Fn> auto withElement(Element element, Fn fn) {
  switch (element) {
  case Element::BF16:
    return fn(__nv_bfloat16());
  case Element::F16:
    return fn(__half());
  case Element::F32:
    break;
  case Element::F64:
    return fn(double());
  }
  return fn(float());
}

/// Loads kernels one by one; stops at the first failure.
class KernelLoader {
public:
  template <class... Arguments> void load(void (*kernel)(Arguments...), int sharedBytes = 0) {
    const auto *function = reinterpret_cast<const void *>(kernel);
    cudaFuncAttributes attributes;
    if (code_ == cudaSuccess)
      code_ = cudaFuncGetAttributes(&attributes, function);
    if (code_ == cudaSuccess && sharedBytes != 0)
      code_ =
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes);
  }
  cudaError_t code() const { return code_; }

private:
  cudaError_t code_ = cudaSuccess;
};

} // namespace braid::cuda
