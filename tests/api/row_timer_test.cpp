//===- tests/api/row_timer_test.cpp - timing rows on one rank ---------------------------------===//

#include "api/bench/row_timer.h"

#include "api/bench/operation.h"
#include "api/ranks/backends.h"
#include "tests/support/configured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

Result<Configurations> nothingChooses(const TimedRow &) {
  return Status(StatusCode::Unsupported, "nothing here chooses");
}

/// A job of one rank.
class RowTimerTest : public testing::Test {
protected:
  RowTimerTest() : registry_(builtinBackends()) {
    auto cluster = registry_.find("cpu")->create({.ranks = 1});
    EXPECT_TRUE(cluster) << cluster.status().message();
    cluster_ = std::move(*cluster);
    planTimer_ = std::make_unique<PlanTimer>(*cluster_, 0, plans_, [this] {
      ++begun_;
      return true;
    });
  }

  TimedRow row(const std::string &name) {
    const std::string text = operations()[0].fusion({4, 3, 2}, DType::F32, 1);
    Result<TimedRow> made = makeRow({"gather-matmul", text, {.ranks = 1}}, name, false);
    EXPECT_TRUE(made) << made.status().message();
    return *made;
  }
  std::vector<BenchRow> time(const std::vector<std::string> &names, const BenchTiming &timing,
                             RowChooser chooser = nothingChooses) {
    std::vector<TimedRow> rows;
    for (const std::string &name : names)
      rows.push_back(row(name));
    Result<std::vector<BenchRow>> results =
        RowTimer(*planTimer_, std::move(chooser)).time(rows, timing);
    EXPECT_TRUE(results) << results.status().message();
    return results ? *results : std::vector<BenchRow>(names.size());
  }

  BackendRegistry registry_;
  TimedPlans plans_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<PlanTimer> planTimer_;
  int64_t begun_ = 0; ///< runs and bursts so far; each begins at the barrier
};

TEST_F(RowTimerTest, TimesRowsInTurns) {
  const std::vector<BenchRow> rows =
      time({"gemms", "transfers", "pairwise"}, {.rounds = 3, .iterations = 4, .bursts = 5});
  for (const BenchRow &each : rows) {
    EXPECT_THAT(each.rounds, SizeIs(3));
    EXPECT_THAT(each.rounds, Each(SizeIs(4)));
    EXPECT_THAT(each.bursts, SizeIs(3 * 2)) << "5 over 3 rounds";
    EXPECT_THAT(each.bursts, Each(Gt(0)));
  }
  EXPECT_EQ(plans_.size(), 3u) << "prepared once each";
  EXPECT_EQ(begun_, 3 * ((5 + 4 + 1 + 2) + 2 * (2 + 4 + 1 + 2))) << "with warm-up";
  EXPECT_EQ(rows[0].flops, 2 * 4 * 3 * 2);
  EXPECT_EQ(rows[1].flops, 0);
}

TEST_F(RowTimerTest, TimesNoBurstsUnlessTheyAreAskedFor) {
  const std::vector<BenchRow> rows = time({"pairwise"}, {.iterations = 4, .bursts = 0});
  EXPECT_THAT(rows[0].bursts, SizeIs(0));
  EXPECT_EQ(begun_, 5 + 4);
}

/// The time limit is exceeded at once, so only the minimum of three runs and three bursts is timed.
TEST_F(RowTimerTest, FitsRunsIntoALimit) {
  const std::vector<BenchRow> rows =
      time({"pairwise"}, {.iterations = 2000, .bursts = 2000, .rowUs = 1});
  EXPECT_THAT(rows[0].rounds[0], SizeIs(3));
  EXPECT_THAT(rows[0].bursts, SizeIs(3));
}

TEST_F(RowTimerTest, GoesOnAfterARowThatIsRefused) {
  const std::vector<BenchRow> rows =
      time({"pairwise;chunks=99", "sequential;copies=kernel", "auto", "pairwise"},
           {.iterations = 1, .bursts = 0});
  EXPECT_THAT(rows[0].failure, HasSubstr("99"));
  EXPECT_EQ(rows[0].code, StatusCode::BadInput);
  EXPECT_THAT(rows[1].failure, HasSubstr("does not support the selected copy"));
  EXPECT_EQ(rows[2].failure, "nothing here chooses");
  EXPECT_TRUE(rows[3].isTimed());
}

TEST_F(RowTimerTest, AsksForWhatAutoIs) {
  int asked = 0;
  const std::vector<BenchRow> rows = time({"auto"}, {.rounds = 2, .iterations = 1},
                                          [&](const TimedRow &) -> Result<Configurations> {
                                            ++asked;
                                            return test::configured("sequential");
                                          });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(rows[0].choice, "sequential");
  EXPECT_TRUE(rows[0].isTimed());
}

} // namespace
} // namespace braid
