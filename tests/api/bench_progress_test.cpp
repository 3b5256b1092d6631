//===- tests/api/bench_progress_test.cpp - whether the bench has time for one more shape ------===//

#include "tools/bench/progress.h"

#include <gtest/gtest.h>

namespace braid::tools {
namespace {

std::chrono::steady_clock::time_point ago(int seconds) {
  return std::chrono::steady_clock::now() - std::chrono::seconds(seconds);
}

const std::vector<BenchShape> kShapes = {{512, 512, 512}, {1024, 512, 512}, {2048, 512, 512}};

/// It had the start of ranks and rivals in it, too.
TEST(BenchProgress, DoesNotTakeTheFirstShapeForAnExample) {
  Progress progress(operations().front(), kShapes, /*rounds=*/1, /*timeLimit=*/100, ago(70));
  progress.roundDone(0);
  progress.shapeDone();
  EXPECT_TRUE(progress.hasTimeForNext());
  progress.roundDone(0);
  progress.shapeDone(); // at once
  EXPECT_TRUE(progress.hasTimeForNext());
  EXPECT_FALSE(progress.isTimeOver());
}

TEST(BenchProgress, BeginsNoneBehindTheLimit) {
  Progress progress(operations().front(), kShapes, /*rounds=*/1, /*timeLimit=*/100, ago(101));
  EXPECT_FALSE(progress.hasTimeForNext());
  EXPECT_TRUE(progress.isTimeOver());
}

} // namespace
} // namespace braid::tools
