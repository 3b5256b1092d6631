//===- tests/property/pairs_test.cpp - all pairs of options, 20 exact iterations each ---------===//

#include "tests/support/option_matrix.h"

#include <gtest/gtest.h>

#include <set>

namespace braid::test {
namespace {

TEST(Pairs, TheSelectionCoversEveryPair) {
  const Combination limit = extents();
  std::set<std::array<size_t, 4>> covered;
  for (const Combination &c : pairwiseCombinations())
    for (size_t i = 0; i < kDimensions; ++i)
      for (size_t j = i + 1; j < kDimensions; ++j)
        covered.insert({i, c[i], j, c[j]});
  size_t expected = 0;
  for (size_t i = 0; i < kDimensions; ++i)
    for (size_t j = i + 1; j < kDimensions; ++j)
      expected += limit[i] * limit[j];
  EXPECT_EQ(covered.size(), expected);
}

TEST(Pairs, EveryCombinationEqualsTheReference) {
  std::vector<Combination> selected = pairwiseCombinations();
  for (const Combination &combination : selected) {
    Status status = runCombination(combination);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  std::printf("%zu combinations cover every pair\n", selected.size());
}

} // namespace
} // namespace braid::test
