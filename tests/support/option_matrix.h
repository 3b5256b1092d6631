//===- tests/support/option_matrix.h - all combinations of options, or all pairs --------------===//
//
// Each dimension has a list of values; a combination has one index per dimension.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/ranks/backends.h"

#include <array>
#include <string>
#include <vector>

namespace braid::test {

/// Dimensions in the order of a combination's indices.
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

/// Returns the number of values of each dimension.
Combination extents();
/// Returns all combinations in lexicographic order, without tail splits, which would triple their
/// number.
std::vector<Combination> allCombinations();
/// Returns a selection that contains every pair of values of any two dimensions. Deterministic.
std::vector<Combination> pairwiseCombinations();

/// Runs a combination with 20 iterations and compares every element.
Status runCombination(const Combination &combination);
/// Returns Ok if the checker proves the combination, including its result, with one queue.
Status checkCombination(const Combination &combination);
/// Formats the combination as flags, for messages.
std::string str(const Combination &combination);

} // namespace braid::test
