//===- tests/api/rank_times_test.cpp - the number of warm-up runs before timing ---------------===//

#include "api/timing/plan_timer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace braid {
namespace {

/// The control plane of rank 0 in a job of two ranks. Rank 1 contributes the time `othersUs`.
class BesideAnother final : public ControlPlane {
public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    ++decisions;
    std::string others(reinterpret_cast<const char *>(&othersUs), sizeof othersUs);
    return std::vector<std::string>{std::move(mine), std::move(others)};
  }
  Status commit() override { return Status::ok(); }
  void abort(const Status &) override {}
  Status failure() const override { return Status::ok(); }

  double othersUs = 0;
  int decisions = 0;
};

class WarmUp : public testing::Test {
protected:
  /// Warms up with runs that take `times`; all further runs take the last of these times. Returns
  /// the number of runs.
  int64_t runs(const std::vector<double> &times, int64_t least = 0, double warmUpUs = 1000) {
    int64_t count = 0;
    Result<double> us = warmUp(control_, least, warmUpUs, [&]() -> Result<double> {
      const auto next = static_cast<size_t>(count++);
      return times[std::min(next, times.size() - 1)];
    });
    EXPECT_TRUE(us) << us.status().message();
    decided_ = us ? *us : -1;
    return count;
  }

  BesideAnother control_;
  double decided_ = 0;
};

TEST_F(WarmUp, RunsForSomeTime) {
  EXPECT_EQ(runs({10}), 100);
  EXPECT_EQ(decided_, 10);
  EXPECT_LE(control_.decisions, 7) << "once whenever there are twice as many";
}

TEST_F(WarmUp, ForgetsWhatTheFirstRunLoaded) { EXPECT_EQ(runs({5000, 10}), 100); }

TEST_F(WarmUp, ForgetsARunThatWasDisturbed) {
  EXPECT_EQ(runs({10, 200, 10}), 100) << "else there were five";
}

TEST_F(WarmUp, GoesByTheSlowestRank) {
  control_.othersUs = 100;
  EXPECT_EQ(runs({10}), 10);
  EXPECT_EQ(decided_, 100);
}

TEST_F(WarmUp, TrustsASingleRunIfItIsAskedFor) {
  EXPECT_EQ(runs({2000}, 1, 0), 1);
  EXPECT_EQ(decided_, 2000);
}

TEST_F(WarmUp, MayNotRunAtAll) {
  EXPECT_EQ(runs({10}, 0, 0), 0);
  EXPECT_EQ(decided_, 0);
}

TEST_F(WarmUp, EndsWithTheFirstFailure) {
  int count = 0;
  Result<double> us = warmUp(control_, 5, 0, [&]() -> Result<double> {
    if (++count == 3)
      return Status(StatusCode::PeerFailed, "gone");
    return 1.0;
  });
  EXPECT_EQ(us.status().message(), "gone");
  EXPECT_EQ(count, 3);
}

} // namespace
} // namespace braid
