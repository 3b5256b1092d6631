//===- tests/property/exhaustive_test.cpp - all combinations of options (ctest -L exhaustive) -===//

#include "tests/support/option_matrix.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

TEST(Exhaustive, EveryCombinationEqualsTheReference) {
  std::vector<Combination> all = allCombinations();
  ASSERT_GE(all.size(), 224000u);
  for (size_t i = 0; i < all.size(); ++i) {
    Status status = runCombination(all[i]);
    ASSERT_TRUE(status.isOk()) << status.message();
    if ((i + 1) % 1000 == 0)
      std::printf("%zu of %zu combinations exact\n", i + 1, all.size()), std::fflush(stdout);
  }
  std::printf("%zu combinations, 20 iterations each: all exact\n", all.size());
}

} // namespace
} // namespace braid::test
