//===- tests/api/row_timer_test.cpp - timing rows on one rank ---------------------------------===//

#include "api/bench/row_timer.h"

#include "api/bench/gather_bench.h"
#include "api/compile/plans.h"
#include "api/ranks/run.h"
#include "tests/support/configured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(BenchTiming, FitsRunsIntoALimit) {
  const BenchTiming timing{5, 20, 1000, 0, /*idleGapUs=*/0};
  EXPECT_EQ(timing.within(10).iterations, 20) << "all of them";
  EXPECT_EQ(timing.within(10).warmUp, 5);
  EXPECT_EQ(timing.within(100).iterations, 10);
  EXPECT_EQ(timing.within(100).warmUp, 2);
  EXPECT_EQ(timing.within(1e6).iterations, 3) << "never fewer";
  EXPECT_EQ(timing.within(1e6).warmUp, 1);
  EXPECT_EQ((BenchTiming{5, 2, 1000}).within(1e6).iterations, 2) << "never more than asked for";
  EXPECT_EQ((BenchTiming{5, 20, 0}).within(1e6).iterations, 20) << "no limit";
}

TEST(BenchTiming, WarmsUpHoweverShortTheLimitIs) {
  BenchTiming timing{.warmUp = 5, .iterations = 20, .warmUpUs = 1000, .idleGapUs = 0};
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
  EXPECT_EQ((BenchTiming{.warmUp = 0, .warmUpUs = 1000}).within(0).warmUp, 2) << "so as to know";
  EXPECT_EQ((BenchTiming{.warmUp = 0}).within(0).warmUp, 0);
  timing.idleGapUs = 10;
  EXPECT_EQ(timing.within(10).warmUp, 50) << "rests are part of it";
  EXPECT_EQ(timing.within(30).iterations, 10);
  timing.warmUpUs = 1e300;
  EXPECT_EQ(timing.within(1).warmUp, 100000) << "no number overflows";
}

TEST(BenchTiming, HasAboutTenMillisecondsOfRunsInABurst) {
  EXPECT_EQ(BenchTiming::runsOfBurst(100), 100);
  EXPECT_EQ(BenchTiming::runsOfBurst(1e6), 2) << "one follows another";
  EXPECT_EQ(BenchTiming::runsOfBurst(0.1), 10000);
  EXPECT_EQ(BenchTiming::runsOfBurst(0), 10000);
  const BenchTiming timing{.limitUs = 50e3, .bursts = 21};
  EXPECT_EQ(timing.within(100).bursts, 5);
  EXPECT_EQ(timing.within(1e6).bursts, 3) << "never fewer";
  EXPECT_EQ((BenchTiming{.limitUs = 50e3, .bursts = 2}).within(1e6).bursts, 2);
  EXPECT_EQ((BenchTiming{.bursts = 21}).within(1e6).bursts, 21) << "no limit";
}

TEST(Settling, IsForWhatPowerLimits) {
  auto warmUpTime = [](const BenchShape &shape) {
    return warmUpTimeUs(gatherMatmul().flops(shape));
  };
  EXPECT_EQ(warmUpTime({1024, 1024, 1024}), 0);
  EXPECT_EQ(warmUpTime({2048, 2048, 5960}), 0) << "a little less than 5e10 operations";
  EXPECT_EQ(warmUpTime({2048, 2048, 5961}), 100e3);
  EXPECT_EQ(warmUpTime({1 << 20, 1 << 20, 1 << 20}), 100e3) << "no number overflows";
}

/// One rank, which meets nobody.
class RowTimerTest : public testing::Test {
protected:
  RowTimerTest() : registry_(builtinBackends()) {
    auto cluster = registry_.find("cpu")->create({.ranks = 1});
    EXPECT_TRUE(cluster) << cluster.status().message();
    cluster_ = std::move(*cluster);
    planTimer_ = std::make_unique<PlanTimer>(*cluster_, 0, plans_, [this] {
      ++runs_;
      return true;
    });
    timer_ = std::make_unique<RowTimer>(*planTimer_);
  }

  TimedRow row(const std::string &name, int64_t m = 4) {
    Result<TimedRow> made = makeGatherRow(name, {m, 3, 2}, DType::F32, 1, false);
    EXPECT_TRUE(made) << made.status().message();
    return *made;
  }
  Result<std::vector<double>> time(const TimedRow &row,
                                   const BenchTiming &timing = {.warmUp = 1, .iterations = 4}) {
    if (Status status = timer_->lower(row); !status.isOk())
      return status;
    Result<RowTimes> times = timer_->time(row, timing);
    if (!times)
      return times.status();
    bursts_ = times->burstUs;
    return times->us;
  }

  BackendRegistry registry_;
  TimedPlans plans_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<PlanTimer> planTimer_;
  std::unique_ptr<RowTimer> timer_;
  int64_t runs_ = 0;           ///< each begins at the barrier, and so does each burst
  std::vector<double> bursts_; ///< of the row that was timed last
};

TEST_F(RowTimerTest, TimesRowsInTurnsOnTheSameTensors) {
  for (int round = 0; round < 3; ++round)
    for (const char *name : {"matmul", "gather", "pairwise"}) {
      Result<std::vector<double>> samples = time(row(name));
      ASSERT_TRUE(samples) << samples.status().message();
      EXPECT_THAT(*samples, SizeIs(4));
    }
  EXPECT_EQ(plans_.size(), 3u);
  const int64_t before = planTimer_->allocatedBytes();
  EXPECT_GT(before, 0);
  timer_->forgetRows();
  ASSERT_TRUE(time(row("matmul", 1024)));
  EXPECT_EQ(plans_.size(), 4u);
  EXPECT_GE(planTimer_->allocatedBytes(), before + 1024 * 2 * 4);
}

TEST_F(RowTimerTest, RunsUntimedUntilARowIsWarm) {
  ASSERT_TRUE(time(row("matmul")));
  EXPECT_EQ(runs_, 1 + 4);
  for (int64_t warmUp : {0, 1, 7}) {
    runs_ = 0;
    Result<std::vector<double>> samples =
        time(row("matmul"), {.warmUp = warmUp, .iterations = 4, .limitUs = 4, .warmUpUs = 1e5});
    ASSERT_TRUE(samples) << samples.status().message();
    EXPECT_THAT(*samples, SizeIs(testing::Le(4)));
    EXPECT_GT(runs_ - static_cast<int64_t>(samples->size()), 20) << "0.1 s of such short runs";
  }
}

TEST_F(RowTimerTest, RestsBeforeEachRun) {
  constexpr double kRest = 5e4;
  const auto start = std::chrono::steady_clock::now();
  Result<std::vector<double>> samples =
      time(row("matmul"), {.warmUp = 1, .iterations = 3, .idleGapUs = kRest});
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(samples) << samples.status().message();
  EXPECT_GE(all.count(), 4 * kRest);
  EXPECT_LT(*std::min_element(samples->begin(), samples->end()), kRest) << "which does not count";
}

TEST_F(RowTimerTest, TimesBurstsBesideRuns) {
  constexpr double kLong = 1e4; // microseconds; no run here takes so long
  Result<std::vector<double>> samples =
      time(row("pairwise"), {.warmUp = 1, .iterations = 5, .bursts = 4});
  ASSERT_TRUE(samples) << samples.status().message();
  EXPECT_THAT(*samples, SizeIs(5));
  ASSERT_THAT(bursts_, SizeIs(4));
  EXPECT_EQ(runs_, 1 + 5 + 1 + 4) << "one burst is untimed";
  EXPECT_GT(*std::min_element(bursts_.begin(), bursts_.end()), 0);
  EXPECT_LT(*std::min_element(bursts_.begin(), bursts_.end()), kLong) << "is that of one run";
  runs_ = 0;
  ASSERT_TRUE(time(row("pairwise"), {.warmUp = 1, .iterations = 5}));
  EXPECT_EQ(runs_, 1 + 5) << "unless nobody asks";
  EXPECT_THAT(bursts_, SizeIs(0));
  ASSERT_TRUE(time(row("pairwise"), {.warmUp = 0, .iterations = 3, .warmUpUs = 1e5, .bursts = 1}));
  EXPECT_THAT(bursts_, SizeIs(1));
}

/// Each run of a burst is a run: it has a number, and follows the one before it on stream 0.
TEST_F(RowTimerTest, ABurstIsAsManyRunsAsItSays) {
  const TimedRow gather = row("pairwise");
  std::unique_ptr<Source> source = parseSource("t.braid", gather.text);
  Result<Compiled> compiled = compile(*source, gather.options);
  ASSERT_TRUE(compiled);
  plans_.push_back(std::move(*makePlans(*compiled)));
  Device &device = cluster_->device(0);
  Result<std::unique_ptr<Prepared>> prepared =
      prepare(plans_.back()[0], device, cluster_->control(0));
  ASSERT_TRUE(prepared) << prepared.status().message();
  std::vector<float> a(8, 1), b(6, 2), c(12);
  const auto start = std::chrono::steady_clock::now();
  Result<double> us =
      timeBurst(**prepared, device, LaunchMode::Eager, 50, {a.data(), b.data()}, {c.data()});
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(us) << us.status().message();
  EXPECT_EQ((*prepared)->epoch(), 50u);
  EXPECT_LE(50 * *us, all.count()) << "is the time of one";
  EXPECT_EQ(c, std::vector<float>(12, 4)) << "and they are done";
}

/// GEMMs read what is random, and not an arena full of zeros.
TEST_F(RowTimerTest, TimesAPartOfARow) {
  TimedRow gemms = row("pairwise");
  gemms.name = "gemms";
  gemms.part = PlanPart::Gemms;
  TimedRow transfers = gemms;
  transfers.name = "transfers";
  transfers.part = PlanPart::Transfers;
  ASSERT_TRUE(time(gemms));
  ASSERT_TRUE(time(transfers));
  ASSERT_EQ(plans_.size(), 2u);
  EXPECT_EQ(plans_[0][0].symmetricBytes, 0);
  EXPECT_TRUE(plans_[1][0].matmuls.empty());
}

TEST_F(RowTimerTest, RefusesARowAndGoesOn) {
  Result<std::vector<double>> samples = time(row("pairwise;chunks=99"));
  ASSERT_FALSE(samples);
  EXPECT_THAT(samples.status().message(), HasSubstr("99"));
  samples = time(row("sequential;copies=kernel"));
  ASSERT_FALSE(samples);
  EXPECT_THAT(samples.status().message(), HasSubstr("no such memory, or way to copy"));
  EXPECT_TRUE(time(row("pairwise")));
}

TEST_F(RowTimerTest, AsksForWhatAutoIs) {
  Result<std::vector<double>> samples = time(row("auto"));
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.status().message(), "auto: nothing here chooses");
  int asked = 0;
  timer_->setChooser([&](const TimedRow &open) -> Result<ChosenRow> {
    ++asked;
    TimedRow chosen = open;
    chosen.options.schedule = test::configured("sequential");
    return ChosenRow{chosen, "sequential"};
  });
  for (int round = 0; round < 2; ++round)
    ASSERT_TRUE(time(row("auto")));
  EXPECT_EQ(asked, 1) << "once a shape";
  EXPECT_EQ(timer_->choiceOf(row("auto")), "sequential");
}

} // namespace
} // namespace braid
