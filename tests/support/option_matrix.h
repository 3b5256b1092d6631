//===- tests/support/option_matrix.h - every combination of options, or every pair ------------===//
//
// Each dimension lists its values; a combination picks one value of each, by index.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/ranks/backends.h"

#include <array>
#include <string>
#include <vector>

namespace braid::test {

/// Dimensions, in the order of a combination's indices.
enum Dimension {
  Ranks,
  Streams,
  Chunking,
  TailSplit,
  ProtocolChoice,
  ScheduleChoice,
  Operation,
  Type,
  Sizes
};
inline constexpr size_t kDimensions = 9;

using Combination = std::array<size_t, kDimensions>;

/// The number of values of each dimension.
Combination extents();
/// All of them in lexicographic order, but for tail splits: they would be three times as many.
std::vector<Combination> allCombinations();
/// A selection in which every pair of values of any two dimensions occurs. Deterministic.
std::vector<Combination> pairwiseCombinations();

/// Runs one with 20 iterations, comparing every element.
Status runCombination(const Combination &combination);
/// Ok if the checker proves it safe with one queue, its result included.
Status checkCombination(const Combination &combination);
/// As flags, for messages.
std::string str(const Combination &combination);

} // namespace braid::test
