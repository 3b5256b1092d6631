//===- runtime/reference/reference_codec.h - exact conversions of element types ---------------===//
//
// The reference never rounds, so it detects values that a type cannot represent. It is deliberately
// independent of the backends' arithmetic.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

namespace braid::reference {

/// Returns the largest n such that all integers up to 2^n are exact in `dtype`.
int digitsOf(DType dtype);
/// Returns the bits of `value` in `dtype`, or nullopt if `dtype` cannot represent it exactly.
/// Subnormals count as not representable.
std::optional<uint64_t> encodeExactly(DType dtype, double value);

/// Writes the low-order bytes of `bits` as element `index` of an array of `dtype`.
void store(DType dtype, uint64_t bits, void *data, int64_t index);
/// Reads elements [begin, begin + out.size()) of an array of `dtype`. Preserves NaN and infinity.
void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out);

} // namespace braid::reference
