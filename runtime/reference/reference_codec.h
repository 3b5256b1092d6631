//===- runtime/reference/reference_codec.h - the reference's view of the element types --------===//
//
// Exact conversions only: the reference never rounds, so that it sees a value that a type does not
// hold. Deliberately written apart from the backends' arithmetic.
//
//===-------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

#include <cstring>

namespace braid::reference {

/// The bits of `value` in `dtype`, or nothing where it cannot be held exactly. Subnormal f16 counts
/// as not held.
std::optional<uint64_t> encodeExactly(DType dtype, double value);
/// True if `encodeExactly` gives bits.
bool isExact(DType dtype, double value);
/// Bits of a quiet NaN.
uint64_t nanBits(DType dtype);

/// Writes the low bits of `bits` as element `index` of an array of `dtype`. Inline, because it
/// fills inputs of a billion elements.
inline void store(DType dtype, uint64_t bits, void *data, int64_t index) {
  char *begin = static_cast<char *>(data);
  const uint32_t word = static_cast<uint32_t>(bits);
  const uint16_t half = static_cast<uint16_t>(bits);
  if (dtype == DType::F64)
    std::memcpy(begin + index * 8, &bits, 8);
  else if (dtype == DType::F32)
    std::memcpy(begin + index * 4, &word, 4);
  else
    std::memcpy(begin + index * 2, &half, 2);
}

/// Elements [begin, begin + out.size()) of an array of `dtype`. NaN stays NaN, inf stays inf.
void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out);

} // namespace braid::reference
