//===- tests/processes/fault_cost_test.cpp - what it costs to be ready for faults -------------===//

#include "tests/processes/fault_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// All threads of a rank that waits for another one: the watchdog's share is a part of that.
TEST(FaultCost, WaitingTakesNoTime) {
  JobSpec spec;
  spec.ranks = 2;
  spec.timeoutMs = spec.joinTimeoutMs = 60000;
  spec.watchesIdle = true;
  spec.iterations = 1;
  spec.faults = {
      {.rank = 1, .action = Action::DelayBelow, .site = Site::Run, .run = 1, .belowMs = 5000}};
  const JobOutcome outcome = runJob(spec);
  ASSERT_EQ(outcome.code, 0) << outcome.str();
  EXPECT_THAT(contradictions(spec, outcome), ::testing::IsEmpty());
  std::printf("a waiting rank uses %.2f %% of a core, all its threads together\n",
              outcome.ranks[0].idlePercent);
  EXPECT_GE(outcome.ranks[0].idlePercent, 0);
  EXPECT_LT(outcome.ranks[0].idlePercent, 1);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  if (std::optional<int> status = braid::test::playRole())
    return *status;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
