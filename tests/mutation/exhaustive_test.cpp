//===- tests/mutation/exhaustive_test.cpp - all mutants of all cases (ctest -L exhaustive) ----===//

#include "tests/mutation/tally.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

TEST(MutationExhaustive, TheCheckerIsRightAboutEveryMutant) {
  const auto cases = allCases();
  ASSERT_GE(cases.size(), 2600u);
  Tally tally = judgeAll(cases);
  std::printf("%s", tally.str().c_str());
  for (const std::string &failure : tally.failures)
    ADD_FAILURE() << failure;
}

} // namespace
} // namespace braid::test
