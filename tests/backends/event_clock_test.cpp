//===- tests/backends/event_clock_test.cpp - times of GPU events on the host's clock ----------===//
//
// Needs no GPU: the clocks are simulated.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/event_clock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace braid {
namespace {

/// A GPU that passes an event some time after it was recorded, and a host that notices it later.
struct MadeUpClocks {
  std::vector<int64_t> latenciesNs;  ///< per attempt: time from the record to the event
  std::vector<int64_t> latenessesNs; ///< per attempt: time from the event until the host notices it

  int64_t nowNs = 1000000;
  size_t attempt = 0;
  int64_t passedNs[2] = {};

  EventMoment closest() {
    return closestMoment(
        static_cast<int>(latenciesNs.size()),
        [&](size_t event) { passedNs[event] = nowNs + latenciesNs[attempt]; },
        [&](size_t event) {
          nowNs = passedNs[event] + latenessesNs[attempt++];
          return true;
        },
        [&] { return nowNs; });
  }
};

TEST(EventClock, TheSmallestOfSeveralGapsBoundsTheError) {
  MadeUpClocks clocks{.latenciesNs = {50000, 3000, 4000, 2000, 9000},
                      .latenessesNs = {70000, 2000, 300000, 1000, 5000}};
  const EventMoment moment = clocks.closest();
  EXPECT_EQ(moment.errorNs, 1500);
  EXPECT_LE(std::abs(moment.ns - clocks.passedNs[moment.event]), moment.errorNs)
      << "the event has that moment still";
}

/// If there is only one attempt and the host wakes late, the error bound is half of the delay.
TEST(EventClock, OneAttemptHasItsBound) {
  MadeUpClocks clocks{.latenciesNs = {1000}, .latenessesNs = {80000}};
  const EventMoment moment = clocks.closest();
  EXPECT_EQ(moment.event, 0u);
  EXPECT_EQ(moment.errorNs, 40500);
  EXPECT_LE(std::abs(moment.ns - clocks.passedNs[0]), moment.errorNs);
}

float millisecondsBetween(int64_t from, int64_t to) {
  return static_cast<float>(static_cast<double>(to - from) / 1e6);
}

/// Two streams for ten minutes; the commands of one are issued before those of the other.
TEST(EventClock, LongTracesStayExact) {
  constexpr int64_t kStart = 123456789, kHost = 987654321, kApart = 5000000;
  constexpr double kMostNs = 10;
  EventClock<int64_t> clock(kStart, kHost, millisecondsBetween);
  for (int64_t command = 0; command < 120000; ++command) {
    const int64_t event = kStart + command * kApart + command * 7919 % 1000;
    ASSERT_NEAR(static_cast<double>(clock.nsOf(event) - kHost), static_cast<double>(event - kStart),
                kMostNs)
        << command;
    const int64_t behind = event - 20 * kApart; // an event of the other stream
    ASSERT_NEAR(static_cast<double>(clock.nsOf(behind) - kHost),
                static_cast<double>(behind - kStart), kMostNs)
        << command;
  }
}

} // namespace
} // namespace braid
