//===- tests/runtime/progress_test.cpp - how often a step reports its progress ----------------===//

#include "runtime/progress.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid {
namespace {

/// Returns the values of `done` with which the listener is called.
std::vector<size_t> callsFor(size_t total, size_t advances) {
  std::vector<size_t> calls;
  const ProgressFn listener = [&](const WorkProgress &now) { calls.push_back(now.done); };
  ProgressStep step(listener, "running", "iterations", total);
  for (size_t i = 0; i < advances; ++i)
    step.advance();
  return calls;
}

TEST(ProgressStep, ReportsEachUnitOfAShortStep) {
  EXPECT_EQ(callsFor(3, 3), (std::vector<size_t>{0, 1, 2, 3}));
}

// A hundred million slow iterations: the first report must not wait for a large part of them.
TEST(ProgressStep, ReportsALongStepSoon) {
  EXPECT_EQ(callsFor(100'000'000, 40), (std::vector<size_t>{0, 16, 32}));
}

} // namespace
} // namespace braid
