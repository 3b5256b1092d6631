//===- runtime/plan/shift.h - shifts between alike ranks --------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Ranks are alike if the peers of each rank r are those of rank 0 shifted by r. A shift adds r
/// modulo the number of ranks (Add) or xors with r (Xor, only if that number is a power of two).
/// Block indices shift in the same way.
enum class Shift : uint8_t { Add, Xor };

/// Returns true if `shift` is applicable to `count` ranks or blocks.
constexpr bool canShift(Shift shift, int64_t count) {
  return shift == Shift::Add || (count & (count - 1)) == 0;
}
/// Returns the image of `from` under the shift that maps 0 to `by`. Both must be less than `count`.
constexpr int64_t shifted(Shift shift, int64_t from, int64_t by, int64_t count) {
  if (shift == Shift::Xor)
    return from ^ by;
  return from + by < count ? from + by : from + by - count;
}
/// Returns the value of `by` for which shifted() maps `from` to `to`.
constexpr int64_t shiftBetween(Shift shift, int64_t from, int64_t to, int64_t count) {
  if (shift == Shift::Xor)
    return from ^ to;
  return to >= from ? to - from : to - from + count;
}

} // namespace braid
