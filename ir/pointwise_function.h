//===- ir/pointwise_function.h - pointwise functions, for host and kernel code ----------------===//
#pragma once

#include <cstdint>

namespace braid {

enum class PointwiseFunction : uint8_t {
#define BRAID_POINTWISE(Function, ...) Function,
#include "ir/pointwise_functions.def"
};

} // namespace braid
