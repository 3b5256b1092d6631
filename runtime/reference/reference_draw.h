//===- runtime/reference/reference_draw.h - numbers that the patterns draw --------------------===//
#pragma once

#include "runtime/reference/reference_graph.h"
#include "runtime/split_mix.h"

namespace braid::reference {

/// Marks are kMark, ..., 2 * kMark - 1: twice the least exceeds the greatest, so that a mark times
/// a weight of 1 or 2 tells both. kMark is prime.
constexpr uint64_t kMark = 61;

/// `x`, displaced a little more after every `period`: entries `period` apart differ, too.
inline uint64_t spread(int64_t x, uint64_t period) {
  const uint64_t index = static_cast<uint64_t>(x);
  return index + index / period * (period / 2 + 1);
}

/// How far `turn` turns `classes`: not by 0 and, from 4 of them on, not by half of them. Then a
/// square matrix whose column n has what is not zero at the k of class n + shift is not its own
/// transpose.
inline uint64_t shiftOf(uint64_t turn, uint64_t classes) {
  if (classes == 1)
    return 0;
  const uint64_t half = classes > 2 && classes % 2 == 0 ? classes / 2 : classes;
  const uint64_t shift = 1 + turn % (classes - (half < classes ? 2 : 1));
  return shift < half ? shift : shift + 1;
}

/// A row of a first operand in one iteration: row `row` of block `block`.
struct RowKey {
  uint32_t iteration;
  int64_t block, row;

  /// What the row's mark is made of. Small combinations of the steps do not vanish modulo kMark.
  uint64_t residue() const {
    constexpr uint64_t kIterationStep = 5, kBlockStep = 9; // a row counts 1
    return kIterationStep * iteration + kBlockStep * spread(block, kMark) + spread(row, kMark);
  }
  /// Where the mark is. Neighbouring rows have theirs at neighbouring places, so that a few rows
  /// reach every place.
  uint64_t place() const {
    return static_cast<uint64_t>(row) + 3 * uint64_t(iteration) + 5 * static_cast<uint64_t>(block);
  }
  /// Differs from row to row, without any order.
  uint64_t random(uint64_t salt) const {
    const uint64_t input = splitMix(splitMix(salt) + iteration);
    return splitMix(splitMix(input + uint64_t(block)) + uint64_t(row));
  }
};

/// The number after `random` in a sequence whose high bits look random. Cheaper than splitMix().
inline uint64_t next(uint64_t random) { return random * 0x5851f42d4c957f2d + 0x14057b7ef767814f; }

/// A number below `n` made of the high bits of `random`.
inline uint64_t below(uint64_t random, int64_t n) {
  return ((random >> 33) * static_cast<uint64_t>(n)) >> 31;
}

/// Values without a mark are these.
constexpr int8_t kSmall[6] = {1, -1, 2, -2, 3, -3};

/// The next of `random`'s small values.
inline int8_t nextSmall(uint64_t &random) {
  random = next(random);
  return kSmall[below(random, 6)];
}

} // namespace braid::reference
