//===- tests/mutation/mutation_test.cpp - is the checker right about wrong programs? ----------===//
//
// Generated programs get one mistake at a time, everywhere it can be made. What the checker accepts
// must run right in 200 orders that favour rare ones, and in every order there is if they are not
// too many; what it rejects must be seen to go wrong. The exceptions, which only the definition
// condemns, are listed in judge.cpp and counted here.
//
// BRAID_CASE=n judges the n-th of all cases alone.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/mutation/tally.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace braid::test {
namespace {

void expectRight(const Tally &tally) {
  std::printf("%s", tally.str().c_str());
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < tally.failures.size() && i < kShown; ++i)
    ADD_FAILURE() << tally.failures[i];
  EXPECT_TRUE(tally.failures.empty()) << tally.failures.size() << " mutants are misjudged";
  const Counts total = tally.total();
  // What only the definition condemns must stay the exception.
  EXPECT_LT(total.of(Outcome::Condemned) * 5, total.rejected());
  EXPECT_GT(total.of(Outcome::Guilty), total.made / 3);
  EXPECT_GT(total.of(Outcome::Harmless), total.made / 20);
}

TEST(Mutation, TheCheckerIsRightAboutEveryMutant) {
  std::vector<CaseOptions> cases = representativeCases();
  size_t fewest = 2000;
  if (const char *chosen = std::getenv("BRAID_CASE")) {
    cases = {allCases().at(std::strtoull(chosen, nullptr, 10))};
    fewest = 1;
  }
  Tally tally = judgeAll(cases);
  expectRight(tally);
  EXPECT_GE(tally.total().made, fewest);
}

} // namespace
} // namespace braid::test
