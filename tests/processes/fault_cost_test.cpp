//===- tests/processes/fault_cost_test.cpp - what it costs to be ready for faults -------------===//
//
// Prints what it measures. The bounds are far above what an idle machine needs.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/processes/fault_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace braid::test {
namespace {

JobSpec patientJob(int64_t ranks) {
  JobSpec spec;
  spec.ranks = ranks;
  spec.timeoutMs = spec.joinTimeoutMs = 60000;
  spec.startsTogether = true;
  return spec;
}

/// From when all processes have started, to when the last of them is ready to run.
TEST(FaultCost, EightRanksMeetAndExchangeHandles) {
  std::vector<double> ms;
  for (int i = 0; i < 15; ++i) {
    const JobSpec spec = patientJob(8);
    const JobOutcome outcome = runJob(spec);
    ASSERT_EQ(outcome.code, 0) << outcome.str();
    double slowest = 0;
    for (const Verdict &verdict : outcome.ranks)
      slowest = std::max(slowest, verdict.meetSeconds * 1e3);
    ms.push_back(slowest);
  }
  std::sort(ms.begin(), ms.end());
  std::printf("8 ranks join, exchange handles and are prepared: %.1f ms (median of %zu; %.1f to "
              "%.1f)\n",
              ms[ms.size() / 2], ms.size(), ms.front(), ms.back());
  EXPECT_LT(ms.front(), 200);
}

/// All threads of a rank that waits for another one: the watchdog's share is a part of that.
TEST(FaultCost, WaitingTakesNoTime) {
  JobSpec spec = patientJob(2);
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
