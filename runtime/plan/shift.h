//===- runtime/plan/shift.h - shifts between ranks that do the same ---------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Ranks are alike if each has the peers of rank 0, shifted by its rank: added modulo the number of
/// ranks, or xored if that number is a power of two. Blocks of ranks are shifted likewise.
enum class Shift : uint8_t { Add, Xor };

/// Returns true if `count` ranks or blocks can be shifted in this way.
constexpr bool canShift(Shift shift, int64_t count) {
  return shift == Shift::Add || (count & (count - 1)) == 0;
}
/// Returns the number to which `from` is shifted if 0 is shifted to `by`. Both are below `count`.
constexpr int64_t shifted(Shift shift, int64_t from, int64_t by, int64_t count) {
  if (shift == Shift::Xor)
    return from ^ by;
  return from + by < count ? from + by : from + by - count;
}
/// Returns the shift that maps `from` to `to`.
constexpr int64_t shiftBetween(Shift shift, int64_t from, int64_t to, int64_t count) {
  if (shift == Shift::Xor)
    return from ^ to;
  return to >= from ? to - from : to - from + count;
}

} // namespace braid
