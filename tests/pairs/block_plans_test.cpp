//===- tests/pairs/block_plans_test.cpp - programs that move blocks ---------------------------===//

#include "api/pairs/block_plans.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

using Counts = std::array<int64_t, 4>; ///< copies, signals, awaits, groups

Counts countsOf(const Plan &plan) {
  Counts counts{};
  for (const Command &command : plan.commands) {
    counts[0] += command.kind == CommandKind::Copy;
    counts[1] += command.kind == CommandKind::Signal;
    counts[2] += command.kind == CommandKind::Await;
    counts[3] += command.kind == CommandKind::Group;
  }
  return counts;
}

TEST(BlockPlans, HaveTheSignalsThatTheyNeed) {
  struct Case {
    const char *name;
    Path path;
    int64_t source;
    bool andBack;
    Counts first, second;
  };
  const Case cases[] = {
      {"a put is a loop of copies", Path::PutEngine, 0, false, {5, 1, 1, 0}, {0, 1, 1, 0}},
      {"from the other rank, too", Path::PutKernel, 1, false, {0, 1, 1, 0}, {5, 1, 1, 0}},
      {"a get copies at the destination", Path::GetEngine, 0, false, {0, 1, 1, 0}, {5, 1, 1, 0}},
      {"each put is announced", Path::PutEngine, 0, true, {5, 5, 6, 0}, {5, 6, 5, 0}},
      {"each get is allowed", Path::GetEngine, 0, true, {5, 5, 5, 0}, {5, 5, 5, 0}},
      {"messages are groups", Path::Messages, 0, false, {0, 0, 0, 5}, {0, 0, 0, 5}},
  };
  for (const Case &each : cases) {
    const Result<std::vector<Plan>> plans =
        blockPlans({each.path, each.source, each.andBack, /*bytes=*/68, /*slots=*/2, /*count=*/5});
    ASSERT_TRUE(plans.isOk()) << each.name << ": " << plans.status().message();
    EXPECT_EQ(countsOf((*plans)[0]), each.first) << each.name;
    EXPECT_EQ(countsOf((*plans)[1]), each.second) << each.name;
  }
}

} // namespace
} // namespace braid::test
