//===- tests/mutation/mutation_test.cpp - the checker's verdicts on wrong programs ------------===//
//
// These tests insert mistakes into lowered and hand-written programs, one at a time, at every
// possible site. A mutant that the checker accepts must run correctly in 60 random orders, most of
// which favor rare interleavings, and in every possible order if there are at most 300. A mutant
// that the checker rejects must fail in some order. judge.cpp lists the exceptions: mutants that
// violate the definition of safety but never fail. The tests limit the number of these exceptions.
//
// BRAID_CASE=n judges only the n-th case. BRAID_MUTANTS=n draws n mutants with several mistakes
// instead of 1,000. BRAID_ORDERS=n uses n orders instead of 60.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/mutation/tally.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace braid::test {
namespace {

void expectNoneMisjudged(const Tally &tally) {
  std::printf("%s", tally.str().c_str());
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < tally.failures.size() && i < kShown; ++i)
    ADD_FAILURE() << tally.failures[i];
  EXPECT_TRUE(tally.failures.empty()) << tally.failures.size() << " mutants are misjudged";
}

void expectRight(const Tally &tally) {
  expectNoneMisjudged(tally);
  const Counts total = tally.total();
  // Mutants that violate the definition of safety but never fail must remain exceptions.
  EXPECT_LT(total.of(Outcome::Condemned) * 5, total.rejected());
  EXPECT_GT(total.of(Outcome::Guilty), total.made / 3);
  EXPECT_GT(total.of(Outcome::Harmless), total.made / 20);
}

TEST(Mutation, TheCheckerIsRightAboutEveryMutant) {
  if (const char *chosen = std::getenv("BRAID_CASE")) {
    expectNoneMisjudged(judgeAll({allCases().at(std::strtoull(chosen, nullptr, 10))}));
    return;
  }
  Tally tally = judgeAll(representativeCases());
  expectRight(tally);
  EXPECT_GE(tally.total().made, 2000u);
  // Some mutants need more than one queue, and deadlock with one.
  EXPECT_GT(tally.queues.size(), 1u);
}

TEST(Mutation, TheCheckerIsRightAboutEveryMutantOfReductions) {
  Tally tally = judgeAll(reductionCases());
  expectRight(tally);
  EXPECT_GE(tally.total().made, 1000u);
}

/// Mistakes may cancel or hide each other.
TEST(Mutation, TheCheckerIsRightAboutSeveralMistakesAtOnce) {
  const char *count = std::getenv("BRAID_MUTANTS");
  std::vector<CaseOptions> cases = representativeCases();
  for (CaseOptions &reduction : reductionCases())
    cases.push_back(std::move(reduction));
  Tally tally = judgeRandom(cases, count ? std::strtoull(count, nullptr, 10) : 1000);
  expectNoneMisjudged(tally);
}

} // namespace
} // namespace braid::test
