//===- tests/bootstrap/host_messages_test.cpp - messages that hosts put into the store --------===//

#include "runtime/job/bootstrap/host_messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

JobMemory emptyMemory(int64_t ranks, const HostPlace &place = {}) {
  Result<JobMemory> memory = JobMemory::create(ranks, place);
  EXPECT_TRUE(memory.isOk()) << memory.status().message();
  return std::move(*memory);
}

TEST(HostMessages, PartsComeAsTheyWere) {
  const std::vector<std::string> parts = {"one", "", std::string(1000, 'x')};
  JobMemory from = emptyMemory(6, {1, 2}), to = emptyMemory(6, {0, 2});
  for (int64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(from.bring(3 + i, 7, parts[static_cast<size_t>(i)], 3).isOk());
  const std::string text = *encodeParts(from, 7);
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(takeParts(llvm::StringRef(text).take_front(size), to, 1, 7).code(),
              StatusCode::BadInput)
        << size;
  EXPECT_THAT(takeParts(text + "x", to, 1, 7).message(),
              HasSubstr("of 3 ranks has an unexpected size of 1004 bytes"));
  EXPECT_TRUE(takeParts(text, to, 1, 9).isOk()) << "they belong to another all-gather";
  EXPECT_FALSE(to.haveCome(to.ranksOf(1), 7));
  ASSERT_TRUE(takeParts(text, to, 1, 7).isOk());
  ASSERT_TRUE(to.haveCome(to.ranksOf(1), 7));
  EXPECT_EQ(*to.parts(to.ranksOf(1), 7), parts);
  EXPECT_EQ(to.leastStep(to.ranksOf(1), 7), 3u);
}

TEST(HostMessages, ACauseComesAsItWas) {
  const JobCause cause{Status(StatusCode::TimedOut, "rank 3 stands still"), 3};
  const std::string body = encodeCause(cause);
  const auto decoded = decodeCause(body, 4);
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(decoded->rank, 3);
  EXPECT_EQ(decoded->status.code(), StatusCode::TimedOut);
  EXPECT_EQ(decoded->status.message(), "rank 3 stands still");
  EXPECT_FALSE(decodeCause(body, 3).isOk()) << "no such rank";
  EXPECT_TRUE(decodeCause(encodeCause({cause.status, -1}), 4).isOk());
  EXPECT_FALSE(decodeCause(encodeCause({cause.status, -2}), 4).isOk());
  for (const char *text : {"", "3", "3 x\nwhy", "3 0\na success is no cause"})
    EXPECT_EQ(decodeCause(text, 4).status().code(), StatusCode::BadInput) << text;
}

// -- States of ranks. --

/// Fills a slot and its first `queues` queues with distinct numbers.
void fillSlot(RankSlot &slot, uint64_t first, uint32_t queues) {
  slot.state = RankState::Left;
  slot.activity = HostActivity::Committing;
  slot.queues = queues;
  slot.activitySinceNs = first + 1;
  slot.heartbeatNs = first + 2;
  slot.issued = first + 3;
  slot.arrivals = first + 4;
  slot.runs = static_cast<uint32_t>(first + 5);
  slot.completedBeyond = first + 6;
  for (uint32_t i = 0; i < queues; ++i) {
    QueueSlot &queue = slot.queue[i];
    queue.completed = first + 10 * i + 10;
    queue.current = first + 10 * i + 11;
    queue.sinceNs = first + 10 * i + 12;
    queue.isWaiting = 1;
    queue.flagValue = static_cast<uint32_t>(first + 10 * i + 13);
    queue.wantedValue = static_cast<uint32_t>(first + 10 * i + 14);
    queue.lastDone = first + 10 * i + 15;
  }
}

TEST(HostMessages, ASignComesAsItWas) {
  JobMemory from = emptyMemory(4, {1, 2}), to = emptyMemory(4, {0, 2});
  fillSlot(from.slot(2), 1000, 2);
  fillSlot(from.slot(3), 5000, kQueueSlots);
  from.slot(3).pid = 77;
  const std::string text = encodeSign({.number = 5, .hasLeft = true}, from);
  const auto sign = takeSign(text, to, 1, 4);
  ASSERT_TRUE(sign.isOk()) << sign.status().message();
  EXPECT_EQ(sign->number, 5u);
  EXPECT_TRUE(sign->hasLeft);
  EXPECT_EQ(to.slot(2).queue[1].lastDone, 1025u);
  EXPECT_EQ(to.slot(3).state, RankState::Left);
  EXPECT_EQ(to.slot(3).queue[kQueueSlots - 1].lastDone, from.slot(3).queue[31].lastDone);
  EXPECT_EQ(to.slot(3).pid, 0u) << "means nothing on another host";
  EXPECT_EQ(to.progress(), from.progress());
  EXPECT_EQ(to.slot(0).heartbeatNs + to.slot(1).heartbeatNs, 0u);
}

/// The other host's clock may be behind or ahead. Reading the same heartbeat again later changes
/// nothing.
TEST(HostMessages, TimesAreThoseOfThisClock) {
  JobMemory to = emptyMemory(4, {0, 2});
  // Slots without queues, whose third and fourth numbers are ages.
  const std::string text = "9 0 0 1 0 501 0 7 0 0 0 0 1 0 0 0 0 0 0 0 ";
  const uint64_t before = monotonicNs();
  ASSERT_TRUE(takeSign(text, to, 1, 8).isOk());
  const uint64_t since = to.slot(2).activitySinceNs;
  EXPECT_GE(since, before - 500);
  EXPECT_LE(since, monotonicNs() - 500);
  EXPECT_EQ(to.slot(2).heartbeatNs, 0u) << "there was none";
  EXPECT_EQ(to.slot(2).issued, 7u);
  ASSERT_TRUE(takeSign(text, to, 1, 9).isOk());
  EXPECT_EQ(to.slot(2).activitySinceNs, since);
}

TEST(HostMessages, ASignOfOtherNumbersIsRefused) {
  JobMemory memory = emptyMemory(2, {0, 2});
  for (const char *text : {"", "9", "x 0 ", "9 0 ", "9 0 33 0 0 ", "9 0 1 0 0 0 "})
    EXPECT_EQ(takeSign(text, memory, 1, 8).status().code(), StatusCode::BadInput) << text;
}

} // namespace
} // namespace braid
