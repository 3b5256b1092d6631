//===- tests/api/signals_test.cpp - signals around and within nested watches ------------------===//

#include "api/launch/signals.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(SignalWatch, AWatchTakesOverWhatCameBeforeItBegan) {
  SignalWatch around;
  std::raise(SIGTERM);
  SignalWatch within;
  EXPECT_EQ(within.take(), SIGTERM);
  EXPECT_EQ(within.take(), 0);
  EXPECT_EQ(around.take(), 0);
}

TEST(SignalWatch, AWatchHandsBackWhatItHasNotTaken) {
  SignalWatch around;
  {
    SignalWatch within;
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    EXPECT_EQ(within.take(), SIGTERM);
  }
  EXPECT_EQ(around.take(), SIGTERM);
  EXPECT_EQ(around.take(), 0);
}

} // namespace
} // namespace braid
