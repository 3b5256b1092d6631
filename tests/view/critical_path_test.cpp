#include "tests/view/pages.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// A page with two ranks. The GEMM of rank 1 waits for the copy of rank 0.
struct Made {
  Page page;
  Timing timing{.name = "made"};
  Made() {
    page.ranks.resize(2);
    for (Rank &rank : page.ranks)
      rank.streams = {"main"};
    page.ranks[0].commands = {{.kind = CommandKind::Copy}, {.kind = CommandKind::Signal}};
    page.ranks[1].commands = {{.kind = CommandKind::Await, .cause = {0, 1}},
                              {.kind = CommandKind::Matmul}};
    timing.spans = {{{1, 5}, {5, 6}}, {{0, 8}, {9, 20}}};
  }
};

TEST(CriticalPath, GoesFromRankToRank) {
  Made made;
  findCriticalPath(made.page, made.timing);
  std::vector<std::pair<std::string, double>> steps;
  for (const PathStep &step : made.timing.critical)
    steps.emplace_back(step.what, step.took);
  EXPECT_THAT(steps, ElementsAre(Pair("launch", 1), Pair("copy", 4), Pair("signal", 1),
                                 Pair("signal", 2), Pair("launch", 1), Pair("GEMM", 11)));
  EXPECT_EQ(made.timing.total, 20);
  EXPECT_EQ(whatLimits(made.timing, "µs"),
            "the critical path of 20.0 µs is 55 % GEMM, 20 % copy, 15 % signal, 10 % launch");
}

/// The time before a wait begins is attributed to the reason why the wait has not begun.
TEST(CriticalPath, ChargesNoWaitThatHasNotBegun) {
  Made made;
  made.timing.spans[1] = {{8, 8.5}, {9, 20}};
  findCriticalPath(made.page, made.timing);
  EXPECT_EQ(whatLimits(made.timing, "µs"),
            "the critical path of 20.0 µs is 55 % GEMM, 20 % copy, 18 % launch, 8 % signal");
}

/// If the clocks of ranks differ, a wait may seem to end before its signal.
TEST(CriticalPath, IsAsLongAsTheRunIfClocksDiffer) {
  Made made;
  made.timing.spans[1] = {{3, 4}, {9, 20}};
  findCriticalPath(made.page, made.timing);
  double all = 0;
  for (const PathStep &step : made.timing.critical)
    all += step.took;
  EXPECT_EQ(all, made.timing.total);
}

TEST(CriticalPath, IsEmptyWhereNothingRan) {
  Made made;
  made.timing.spans = {{{}, {}}, {{0, kDidNotRun}, {}}};
  findCriticalPath(made.page, made.timing);
  EXPECT_TRUE(made.timing.critical.empty());
  EXPECT_EQ(whatLimits(made.timing, "µs"), "");
}

/// The steps of the path follow one another without gaps from begin to end.
TEST(CriticalPath, IsAsLongAsTheRun) {
  for (int64_t ranks : {2, 3, 5}) {
    const Page page = test::predicted(test::printed(test::kGather, ranks));
    const Timing &timing = page.timings.front();
    ASSERT_FALSE(timing.critical.empty());
    double at = timing.critical.front().begin;
    for (const PathStep &step : timing.critical) {
      EXPECT_NEAR(step.begin, at, 1e-6);
      at = step.begin + step.took;
    }
    EXPECT_NEAR(at - timing.critical.front().begin, timing.total, 1e-6);
  }
}

} // namespace
} // namespace braid::view
