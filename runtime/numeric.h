//===- runtime/numeric.h - 16-bit element types for host arithmetic ---------------------------===//
//
// bf16 and f16 values are stored as bit patterns; arithmetic on them uses f32. Widening is exact.
// Narrowing rounds to nearest, ties to even; out-of-range values become infinite, and a NaN remains
// a NaN of the same sign.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/type.h"

#include "llvm/Support/ErrorHandling.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace braid {

struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

/// Converts a value to the type in which GEMMs and sums accumulate it.
inline float widen(BF16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
inline float widen(F16 value) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  uint32_t sign = uint32_t(value.bits & 0x8000u) << 16;
  uint32_t bits = uint32_t(value.bits & 0x7fffu) << 13;
  uint32_t exponent = bits & kExponent;
  bits += (127u - 15u) << 23;
  if (exponent == kExponent) // infinity and NaN
    return std::bit_cast<float>((bits + ((128u - 16u) << 23)) | sign);
  if (exponent != 0)
    return std::bit_cast<float>(bits | sign);
  // Zero or subnormal: an f32 subtraction normalizes the value.
  float normal = std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(113u << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(normal) | sign);
}
inline float widen(float value) { return value; }
inline double widen(double value) { return value; }

template <class Element> using Accumulator = decltype(widen(Element{}));

/// Rounds a value to the nearest value of type Element.
template <class Element> Element narrow(Accumulator<Element> value) { return value; }
template <> inline BF16 narrow<BF16>(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) // a NaN must not be rounded to infinity
    return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <> inline F16 narrow<F16>(float value) {
  constexpr uint32_t kInfinity = 0x7f800000u;
  constexpr uint32_t kTooLarge = (127u + 16u) << 23;
  constexpr uint32_t kSmallestNormal = 113u << 23;
  // 0.5, whose least significant bit is 2^-24.
  constexpr uint32_t kHalf = ((127u - 15u) + (23u - 10u) + 1u) << 23;
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits & 0x80000000u;
  bits ^= sign;
  uint32_t half;
  if (bits >= kTooLarge)
    half = bits > kInfinity ? 0x7e00u : 0x7c00u;
  else if (bits < kSmallestNormal) // the f32 addition rounds to an f16 subnormal
    half =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kHalf)) - kHalf;
  else
    half = (bits - ((127u - 15u) << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  return {static_cast<uint16_t>(half | (sign >> 16))};
}

/// Calls `function` with a value of the C++ type that stores elements of `dtype`.
template <class Function> decltype(auto) withElement(DType dtype, Function function) {
  switch (dtype) {
  case DType::BF16:
    return function(BF16{});
  case DType::F16:
    return function(F16{});
  case DType::F32:
    return function(float{});
  case DType::F64:
    return function(double{});
  }
  llvm_unreachable("covered above");
}

} // namespace braid
