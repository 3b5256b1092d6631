//===- tests/bootstrap/host_messages_test.cpp - what hosts put into their store -------------===//

#include "runtime/job/bootstrap/host_messages.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

JobMemory emptyMemory(int64_t ranks, const HostPlace &place = {}) {
  Result<JobMemory> memory = JobMemory::create(ranks, place);
  EXPECT_TRUE(memory.isOk()) << memory.status().message();
  return std::move(*memory);
}

TEST(HostMessages, ASignComesAsItWas) {
  const std::string text = HostSign{.count = 9, .hosts = 3, .ranks = 12, .hasLeft = true}.encode();
  const std::string whole = text + "rest";
  llvm::StringRef rest = whole;
  const auto sign = HostSign::decode(rest);
  ASSERT_TRUE(sign.isOk());
  EXPECT_EQ(sign->encode(), text);
  EXPECT_EQ(rest, "rest");
  rest = "9 0 1 1 1\n";
  EXPECT_THAT(HostSign::decode(rest).status().message(), HasSubstr("version 7 of a host's sign"));
}

TEST(HostMessages, PartsComeAsTheyWere) {
  const GatheredParts parts{.sequence = 7, .step = 3, .parts = {"one", "", std::string(1000, 'x')}};
  const std::string text = parts.encode();
  const auto decoded = GatheredParts::decode(text, 3);
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(decoded->sequence, 7u);
  EXPECT_EQ(decoded->step, 3u);
  EXPECT_EQ(decoded->parts, parts.parts);
  EXPECT_THAT(GatheredParts::decode(text, 2).status().message(),
              HasSubstr("of 2 ranks, got 1000 more"));
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(GatheredParts::decode(llvm::StringRef(text).take_front(size), 3).status().code(),
              StatusCode::BadInput)
        << size;
  EXPECT_FALSE(GatheredParts::decode(text + "x", 3).isOk());
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

// -- Where ranks are. --

auto isAnyRank() {
  return [](int64_t) { return true; };
}

/// Numbers that are all different, in `queues` queues.
void fillSlot(RankSlot &slot, uint64_t first, uint32_t queues) {
  slot.state = static_cast<uint32_t>(RankState::Left);
  slot.activity = static_cast<uint32_t>(HostActivity::Committing);
  slot.queues = queues;
  slot.activitySinceNs = first + 1;
  slot.heartbeatNs = first + 2;
  slot.issued = first + 3;
  slot.arrivals = first + 4;
  slot.runs = static_cast<uint32_t>(first + 5);
  slot.completedBeyond = first + 6;
  slot.isSpeaking = 1;
  slot.closed = 1;
  slot.isKilled = 1;
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

std::string bodyOf(const JobMemory &memory, int64_t first, int64_t count, int64_t offset = 0) {
  std::string body;
  appendSlots(memory, {first, count}, offset, body);
  return body;
}

TEST(HostMessages, SlotsComeAsTheyWere) {
  JobMemory from = emptyMemory(4), to = emptyMemory(4);
  fillSlot(from.slot(1), 1000, 2);
  fillSlot(from.slot(2), 5000, kQueueSlots);
  from.slot(2).pid = 77;
  ASSERT_TRUE(applySlots(bodyOf(from, 1, 2), to, 0, isAnyRank()).isOk());
  EXPECT_EQ(bodyOf(to, 0, 4), bodyOf(from, 0, 4));
  EXPECT_EQ(to.slot(1).queue[1].lastDone, 1025u);
  EXPECT_EQ(to.slot(2).closed, 1u);
  EXPECT_EQ(to.slot(2).pid, 0u) << "means nothing on another host";
  EXPECT_EQ(to.progress(), from.progress());
}

/// But for the time of what never was.
TEST(HostMessages, TimesAreThoseOfTheOtherClock) {
  JobMemory from = emptyMemory(2), to = emptyMemory(2);
  fillSlot(from.slot(0), 1000000, 1);
  ASSERT_TRUE(applySlots(bodyOf(from, 0, 2, 500), to, -70, isAnyRank()).isOk());
  EXPECT_EQ(to.slot(0).heartbeatNs, 1000002u + 430);
  EXPECT_EQ(to.slot(0).activitySinceNs, 1000001u + 430);
  EXPECT_EQ(to.slot(0).queue[0].sinceNs, 1000012u + 430);
  EXPECT_EQ(to.slot(0).issued, 1000003u);
  EXPECT_EQ(to.slot(1).heartbeatNs, 0u);
}

TEST(HostMessages, NobodySpeaksForRanksOfOthers) {
  JobMemory from = emptyMemory(4), to = emptyMemory(4);
  for (int64_t rank = 0; rank < 4; ++rank)
    fillSlot(from.slot(rank), 1000, 1);
  const std::string before = bodyOf(to, 0, 2);
  auto isTheirs = [](int64_t rank) { return rank >= 2; };
  EXPECT_TRUE(applySlots(bodyOf(from, 0, 4), to, 0, isTheirs).isOk());
  EXPECT_EQ(bodyOf(to, 0, 2), before);
  EXPECT_EQ(bodyOf(to, 2, 2), bodyOf(from, 2, 2));
  for (const char *rank : {"4", "-1", "18446744073709551616", "x"})
    EXPECT_FALSE(applySlots(rank + bodyOf(from, 0, 1).substr(1), to, 0, isAnyRank()).isOk())
        << rank;
}

} // namespace
} // namespace braid
