//===- tests/support/elements.h - reference conversions of element types ----------------------===//
//
// Implements the definitions of the formats in f64, independently of runtime/numeric.h, which this
// code tests.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

#include <cstdint>
#include <vector>

namespace braid::test {

/// Returns the value of a bit pattern of `dtype`.
double decode(DType dtype, uint64_t bits);
/// Returns the bit pattern of the nearest value, with ties to even.
uint64_t encode(DType dtype, double value);
/// Returns the nearest value of `dtype`.
double rounded(DType dtype, double value);

/// Converts `values` to consecutive elements of `dtype`.
std::vector<char> encodeAll(DType dtype, const std::vector<double> &values);
std::vector<double> decodeAll(DType dtype, const std::vector<char> &bytes);

} // namespace braid::test
