//===- tests/support/pointwise_value.h - pointwise functions by their definitions, in f64 -----===//
#pragma once

#include "ir/pointwise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace braid::test {

/// Returns the function's value. Does not use runtime/pointwise_math.h, which it is used to test.
inline double pointwiseValue(PointwiseFunction function, double x, double y) {
  switch (function) {
  case PointwiseFunction::Relu:
    return std::max(x, 0.0);
  case PointwiseFunction::Gelu:
    return x * std::erfc(-x / std::numbers::sqrt2) / 2;
  case PointwiseFunction::GeluTanh:
    return x / (1 + std::exp(-std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  case PointwiseFunction::Silu:
    return x / (1 + std::exp(-x));
  case PointwiseFunction::Multiply:
    return x * y;
  case PointwiseFunction::Add:
    return x + y;
  }
  return NAN;
}

} // namespace braid::test
