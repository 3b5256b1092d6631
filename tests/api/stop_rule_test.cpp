//===- tests/api/stop_rule_test.cpp - when a rank has been stopped for too long ---------------===//

#include "api/launch/stop_rule.h"

#include <gtest/gtest.h>

#include <set>

namespace braid {
namespace {

using std::chrono::milliseconds;

/// A rule for three ranks with a timeout of one second, and the set of stopped ranks.
struct StopRuleTest : testing::Test {
  StopRule rule{3, milliseconds(1000), milliseconds(20)};
  StopRule::Time now{};
  std::set<int64_t> stopped;

  std::optional<int64_t> lookAfter(int64_t ms) {
    now += milliseconds(ms);
    return rule.look(now, [this](int64_t rank) { return stopped.count(rank) != 0; });
  }
  /// Looks every 20 ms for `ms` milliseconds and returns the last answer.
  std::optional<int64_t> lookFor(int64_t ms) {
    for (; ms > 20; ms -= 20)
      EXPECT_EQ(lookAfter(20), std::nullopt);
    return lookAfter(ms);
  }
};

TEST_F(StopRuleTest, NobodyIsStopped) { EXPECT_EQ(lookFor(3000), std::nullopt); }

TEST_F(StopRuleTest, FiresAfterTheTimeout) {
  lookAfter(20);
  stopped = {1};
  lookAfter(20);
  EXPECT_EQ(lookFor(1000), 1);
}

TEST_F(StopRuleTest, NamesWhoWasStoppedFirst) {
  stopped = {2};
  lookAfter(20);
  stopped = {0, 2};
  EXPECT_EQ(lookFor(1000), 2);
}

TEST_F(StopRuleTest, WhoGoesOnStartsAnew) {
  stopped = {1};
  EXPECT_EQ(lookFor(900), std::nullopt);
  stopped = {};
  lookAfter(20);
  stopped = {1};
  lookAfter(20);
  EXPECT_EQ(lookFor(980), std::nullopt);
  EXPECT_EQ(lookAfter(20), 1);
}

TEST_F(StopRuleTest, ASuspendedJobStartsAnew) {
  stopped = {0, 1, 2};
  lookAfter(20);
  // This process was stopped, too, and is the first to continue.
  EXPECT_EQ(lookAfter(60000), std::nullopt);
  stopped = {};
  EXPECT_EQ(lookFor(3000), std::nullopt);
  // Rank 1 does not continue with the others.
  stopped = {1};
  lookAfter(60000);
  EXPECT_EQ(lookFor(1000), 1);
}

TEST_F(StopRuleTest, ALateLookIsNoAbsence) {
  stopped = {1};
  lookAfter(20);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(lookAfter(240), std::nullopt);
  EXPECT_EQ(lookAfter(40), 1);
}

} // namespace
} // namespace braid
