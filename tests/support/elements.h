//===- tests/support/elements.h - element types by formula ------------------------------------===//
//
// Written from the definition of the formats, in f64, and independent of runtime/numeric.h, which
// it judges.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

#include <cstdint>
#include <vector>

namespace braid::test {

/// The value of a bit pattern of `dtype`.
double decode(DType dtype, uint64_t bits);
/// The bit pattern of the value nearest to `value`, ties to the even one.
uint64_t encode(DType dtype, double value);
/// The value nearest to `value`.
double rounded(DType dtype, double value);

/// `values` as elements of `dtype`, one after the other.
std::vector<char> encodeAll(DType dtype, const std::vector<double> &values);
std::vector<double> decodeAll(DType dtype, const std::vector<char> &bytes);

} // namespace braid::test
