//===- runtime/reference/reference_codec.h - the reference's view of the element types --------===//
//
// Exact conversions only: the reference never rounds, so that it sees a value that a type does not
// hold. Deliberately written apart from the backends' arithmetic.
//
//===-------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

namespace braid::reference {

/// Integers up to 2 to this power are exact.
int digitsOf(DType dtype);
/// The bits of `value` in `dtype`, or nothing where it cannot be held exactly. Subnormal numbers
/// count as not held.
std::optional<uint64_t> encodeExactly(DType dtype, double value);
/// True if `encodeExactly` gives bits.
bool isExact(DType dtype, double value);

/// Writes the low bits of `bits` as element `index` of an array of `dtype`.
void store(DType dtype, uint64_t bits, void *data, int64_t index);
/// Elements [begin, begin + out.size()) of an array of `dtype`. NaN stays NaN, inf stays inf.
void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out);

} // namespace braid::reference
