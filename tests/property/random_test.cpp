//===- tests/property/random_test.cpp - random fusions, compared with the reference -----------===//
//
// BRAID_CASES=n draws n cases instead of 2,000; BRAID_CASE=seed runs one and prints it.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/support/number_from.h"
#include "tests/support/random_fusion.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace braid::test {
namespace {

void runCases(uint64_t cases, const RandomKinds &kinds) {
  if (uint64_t seed = numberFrom("BRAID_CASE", 0)) {
    RandomCase drawn = randomCase(seed, kinds);
    Status status = runCase(drawn);
    std::printf("%s%s\n", drawn.str().c_str(), status.message().c_str());
    EXPECT_TRUE(status.isOk());
    return;
  }
  int failures = 0;
  for (uint64_t seed = 1; seed <= cases && failures < 5; ++seed) {
    Status status = runCase(randomCase(seed, kinds));
    EXPECT_TRUE(status.isOk()) << status.message();
    failures += !status.isOk();
  }
  std::printf("%llu random cases\n", static_cast<unsigned long long>(cases));
}

TEST(Random, EveryCaseEqualsTheReference) { runCases(numberFrom("BRAID_CASES", 2000), {}); }

TEST(Random, EveryReductionEqualsTheReference) {
  runCases(numberFrom("BRAID_CASES", 2000) / 2, {.sums = true});
}

TEST(Random, EveryFunctionEqualsTheReference) {
  runCases(numberFrom("BRAID_CASES", 2000) / 2, {.functions = true});
}

TEST(Random, EveryFunctionBetweenSumsEqualsTheReference) {
  runCases(numberFrom("BRAID_CASES", 2000) / 4, {.sums = true, .functions = true});
}

TEST(Random, EveryWholeResultEqualsTheReference) {
  runCases(numberFrom("BRAID_CASES", 2000) / 4, {.whole = true});
}

TEST(Random, TheSameSeedDrawsTheSameCase) {
  for (uint64_t seed = 1; seed < 50; ++seed)
    EXPECT_EQ(randomCase(seed).str(), randomCase(seed).str());
  EXPECT_NE(randomCase(1).str(), randomCase(2).str());
}

} // namespace
} // namespace braid::test
