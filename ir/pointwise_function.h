//===- ir/pointwise_function.h - pointwise functions, also for kernels ------------------------===//
#pragma once

#include <cstdint>

namespace braid {

enum class PointwiseFunction : uint8_t {
#define BRAID_POINTWISE(Function, keyword, operands, summary) Function,
#include "ir/pointwise_functions.def"
};

} // namespace braid
