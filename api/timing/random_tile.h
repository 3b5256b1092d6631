//===- api/timing/random_tile.h - what operands that are timed are filled with ----------------===//
#pragma once

#include "ir/type.h"

#include <vector>

namespace braid {

/// `elements` random numbers in [-1, 1), the same for the same seed: what a GEMM's time depends
/// on, beyond its shape, is power, and that depends on the values.
std::vector<char> randomTile(DType dtype, size_t elements, uint64_t seed);

} // namespace braid
