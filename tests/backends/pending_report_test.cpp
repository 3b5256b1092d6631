//===- tests/backends/pending_report_test.cpp - what a standstill looks like in words ---------===//

#include "runtime/execute/pending_report.h"

#include "tests/backends/backend_test.h"

#include <gmock/gmock.h>

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PendingReportTest, PutsWaitsForPeersFirst) {
  Plan plan = makePlan(0, 4);
  PendingWait peer{tagOf(plan, CommandKind::Await, 2), 1};
  PendingWait event{tagOf(plan, CommandKind::WaitEvent, 2), 0};
  EXPECT_EQ(stallText("no progress for 200 ms", {{1, event}, {1, peer}, {3, event}, {3, peer}},
                      {"rank 2 has not come"}),
            "no progress for 200 ms\n"
            "  rank 1 waits for rank 1 in \"node 5\" at test.braid:15:5, run 2\n"
            "  rank 3 waits for rank 1 in \"node 5\" at test.braid:15:5, run 2\n"
            "  rank 1 waits for its stream 'side' in \"node 7\" at test.braid:17:5, run 2\n"
            "  rank 3 waits for its stream 'side' in \"node 7\" at test.braid:17:5, run 2\n"
            "  rank 2 has not come");
}

TEST(PendingReportTest, ShowsTheTrip) {
  Plan plan = makePlan(0, 4);
  plan.trips = {2, 3};
  plan.origins[5].tripCount = 2;
  EXPECT_EQ(waitText(plan, static_cast<uint32_t>(CommandKind::Await), 5),
            "rank 1 in \"node 5\" (trip 2, 3) at test.braid:15:5, run 5");
}

TEST(PendingReportTest, IsBounded) {
  Plan plan = makePlan(0, 64);
  std::vector<BlockedHead> heads;
  for (int64_t rank = 0; rank < 40; ++rank)
    heads.push_back({rank, {tagOf(plan, CommandKind::Await), 1}});
  const std::string text = stallText("no progress", heads, {});
  EXPECT_THAT(text, HasSubstr("rank 15 waits"));
  EXPECT_THAT(text, Not(HasSubstr("rank 16 waits")));
  EXPECT_THAT(text, HasSubstr("\n  and 24 more waits"));
}

TEST(PendingReportTest, LeavesOutTagsOfNoPlan) {
  EXPECT_EQ(stallText("no progress", {{2, {Tag{}, 3}}}, {}), "no progress");
}

} // namespace
} // namespace braid::test
