//===- runtime/pointwise_math.h - pointwise functions for hosts and kernels -------------------===//
#pragma once

#include "ir/pointwise_function.h"
#include "runtime/host_device.h"

#include <cmath>

namespace braid {

/// Applies `function` to x, and to y if it is binary. Acc is float or double. Propagates NaN.
template <class Acc>
BRAID_HOST_DEVICE inline Acc applyPointwise(PointwiseFunction function, Acc x, Acc y) {
  using std::erf, std::exp, std::tanh; // in device code, these refer to CUDA's overloads
  constexpr Acc kHalf = Acc(0.5), kSqrtHalf = Acc(0.70710678118654752440);
  constexpr Acc kSqrtTwoOverPi = Acc(0.79788456080286535588), kCubic = Acc(0.044715);
  switch (function) {
  case PointwiseFunction::Relu:
    return x < 0 ? Acc(0) : x;
  case PointwiseFunction::Gelu:
    return kHalf * x * (1 + erf(x * kSqrtHalf));
  case PointwiseFunction::GeluTanh:
    return kHalf * x * (1 + tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x)));
  case PointwiseFunction::Silu:
    return x / (1 + exp(-x));
  case PointwiseFunction::Multiply:
    return x * y;
  case PointwiseFunction::Add:
    return x + y;
  }
  return x;
}

} // namespace braid
