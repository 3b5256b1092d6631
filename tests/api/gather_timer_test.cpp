//===- tests/api/gather_timer_test.cpp - timing rows on one rank ------------------------------===//

#include "api/gather_timer.h"

#include "api/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(BenchTiming, FitsRunsIntoALimit) {
  const BenchTiming timing{5, 20, 1000, 0, /*restUs=*/0};
  EXPECT_EQ(timing.within(10).iterations, 20) << "all of them";
  EXPECT_EQ(timing.within(10).warmUp, 5);
  EXPECT_EQ(timing.within(100).iterations, 10);
  EXPECT_EQ(timing.within(100).warmUp, 2);
  EXPECT_EQ(timing.within(1e6).iterations, 3) << "never fewer";
  EXPECT_EQ(timing.within(1e6).warmUp, 1);
  EXPECT_EQ((BenchTiming{5, 2, 1000}).within(1e6).iterations, 2) << "never more than asked for";
  EXPECT_EQ((BenchTiming{5, 20, 0}).within(1e6).iterations, 20) << "no limit";
}

TEST(BenchTiming, SettlesHoweverShortTheLimitIs) {
  BenchTiming timing{.warmUp = 5, .iterations = 20, .settleUs = 1000, .restUs = 0};
  EXPECT_EQ(timing.within(10).warmUp, 100);
  EXPECT_EQ(timing.within(300).warmUp, 5) << "never fewer than asked for";
  EXPECT_EQ(timing.within(1e6).warmUp, 5);
  EXPECT_EQ(timing.within(10).iterations, 20);
  timing.limitUs = 400;
  EXPECT_EQ(timing.within(10).warmUp, 100) << "the limit would have left 5";
  EXPECT_EQ(timing.within(300).warmUp, 4) << "1.2 ms; the limit would have left 1";
  EXPECT_EQ(timing.within(1e6).warmUp, 1);
  EXPECT_EQ(timing.within(10).iterations, 20);
  EXPECT_EQ(timing.within(300).iterations, 3);
  EXPECT_EQ(timing.within(0).warmUp, 5) << "not known yet";
  EXPECT_EQ((BenchTiming{.warmUp = 0, .settleUs = 1000}).within(0).warmUp, 2) << "so as to know";
  EXPECT_EQ((BenchTiming{.warmUp = 0}).within(0).warmUp, 0);
  timing.restUs = 10;
  EXPECT_EQ(timing.within(10).warmUp, 50) << "rests are part of it";
  EXPECT_EQ(timing.within(30).iterations, 10);
  timing.settleUs = 1e300;
  EXPECT_EQ(timing.within(1).warmUp, 100000) << "no number overflows";
}

TEST(Settling, IsForWhatPowerLimits) {
  EXPECT_EQ(settlingUs(GatherShape{1024, 1024, 1024}), 0);
  EXPECT_EQ(settlingUs(GatherShape{2048, 2048, 5960}), 0) << "a little less than 5e10 operations";
  EXPECT_EQ(settlingUs(GatherShape{2048, 2048, 5961}), 100e3);
  EXPECT_EQ(settlingUs(GatherShape{1 << 20, 1 << 20, 1 << 20}), 100e3) << "no number overflows";
}

/// One rank, which meets nobody.
class GatherTimerTest : public testing::Test {
protected:
  GatherTimerTest() : registry_(builtinBackends()) {
    auto cluster = registry_.find("cpu")->create({.ranks = 1});
    EXPECT_TRUE(cluster) << cluster.status().message();
    cluster_ = std::move(*cluster);
    timer_ = std::make_unique<GatherTimer>(*cluster_, DType::F32, plans_, [this] {
      ++runs_;
      return true;
    });
  }

  GatherRow row(const std::string &name, int64_t m = 4) {
    Result<GatherRow> made = makeGatherRow(name, {m, 3, 2}, DType::F32, 1, false);
    EXPECT_TRUE(made) << made.status().message();
    return *made;
  }
  Result<std::vector<double>> time(const GatherRow &row,
                                   const BenchTiming &timing = {.warmUp = 1, .iterations = 4}) {
    if (Status status = timer_->lower(row); !status.isOk())
      return status;
    return timer_->time(row, timing);
  }

  BackendRegistry registry_;
  TimedPlans plans_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<GatherTimer> timer_;
  int64_t runs_ = 0; ///< each begins at the barrier
};

TEST_F(GatherTimerTest, TimesRowsInTurnsOnTheSameTensors) {
  for (int round = 0; round < 3; ++round)
    for (const char *name : {"matmul", "gather", "pairwise"}) {
      Result<std::vector<double>> samples = time(row(name));
      ASSERT_TRUE(samples) << samples.status().message();
      EXPECT_THAT(*samples, SizeIs(4));
    }
  EXPECT_EQ(timer_->loweredRows(), 3);
  const int64_t before = timer_->allocatedBytes();
  EXPECT_GT(before, 0);
  timer_->forgetRows();
  ASSERT_TRUE(time(row("matmul", 1024)));
  EXPECT_EQ(timer_->loweredRows(), 4);
  EXPECT_GE(timer_->allocatedBytes(), before + 1024 * 2 * 4);
}

TEST_F(GatherTimerTest, RunsUntimedUntilARowHasSettled) {
  ASSERT_TRUE(time(row("matmul")));
  EXPECT_EQ(runs_, 1 + 4);
  for (int64_t warmUp : {0, 1, 7}) {
    runs_ = 0;
    Result<std::vector<double>> samples =
        time(row("matmul"), {.warmUp = warmUp, .iterations = 4, .limitUs = 4, .settleUs = 1e5});
    ASSERT_TRUE(samples) << samples.status().message();
    EXPECT_THAT(*samples, SizeIs(testing::Le(4)));
    EXPECT_GT(runs_ - static_cast<int64_t>(samples->size()), 20) << "0.1 s of such short runs";
  }
}

TEST_F(GatherTimerTest, RestsBeforeEachRun) {
  constexpr double kRest = 5e4;
  const auto start = std::chrono::steady_clock::now();
  Result<std::vector<double>> samples =
      time(row("matmul"), {.warmUp = 1, .iterations = 3, .restUs = kRest});
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(samples) << samples.status().message();
  EXPECT_GE(all.count(), 4 * kRest);
  EXPECT_LT(*std::min_element(samples->begin(), samples->end()), kRest) << "which does not count";
}

TEST_F(GatherTimerTest, RefusesARowAndGoesOn) {
  Result<std::vector<double>> samples = time(row("pairwise;chunks=99"));
  ASSERT_FALSE(samples);
  EXPECT_THAT(samples.status().message(), HasSubstr("99"));
  samples = time(row("none;copies=kernel"));
  ASSERT_FALSE(samples);
  EXPECT_THAT(samples.status().message(), HasSubstr("no such way to copy"));
  EXPECT_TRUE(time(row("pairwise")));
}

TEST_F(GatherTimerTest, AsksForWhatAutoIs) {
  Result<std::vector<double>> samples = time(row("auto"));
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.status().message(), "auto: nothing here chooses");
  int asked = 0;
  timer_->setChooser([&](const GatherRow &open) -> Result<ChosenRow> {
    ++asked;
    GatherRow chosen = open;
    chosen.options.schedule = Schedule::None;
    return ChosenRow{chosen, "none"};
  });
  for (int round = 0; round < 2; ++round)
    ASSERT_TRUE(time(row("auto")));
  EXPECT_EQ(asked, 1) << "once a shape";
  EXPECT_EQ(timer_->choiceOf(row("auto")), "none");
}

} // namespace
} // namespace braid
