//===- tests/network/host_messages_test.cpp - what hosts tell each other ----------------------===//

#include "runtime/job/network/host_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace {

using ::testing::HasSubstr;

JobMemory memoryOf(int64_t ranks, const HostPlace &place = {}) {
  Result<JobMemory> memory = JobMemory::create(ranks, place);
  EXPECT_TRUE(memory.isOk()) << memory.status().message();
  return std::move(*memory);
}

TEST(HostMessages, AHelloComesAsItWas) {
  const std::string body = HostHello{.hosts = 3, .ranks = 12}.encode();
  const auto hello = HostHello::decode(body);
  ASSERT_TRUE(hello.isOk());
  EXPECT_EQ(hello->hosts, 3);
  EXPECT_EQ(hello->ranks, 12);
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_EQ(HostHello::decode(llvm::StringRef(body).take_front(size)).status().code(),
              StatusCode::BadInput);
  EXPECT_FALSE(HostHello::decode(body + "x").isOk());
  std::string another = body;
  another[0] = 9;
  EXPECT_THAT(HostHello::decode(another).status().message(),
              HasSubstr("version 4 of the protocol"));
}

TEST(HostMessages, PartsComeAsTheyWere) {
  const GatheredParts parts{.sequence = 7, .step = 3, .parts = {"one", "", std::string(1000, 'x')}};
  const Frame frame = encodeGathered(FrameKind::HostGather, parts);
  EXPECT_EQ(frame.kind, FrameKind::HostGather);
  const auto decoded = decodeGathered(frame, 3);
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(decoded->sequence, 7u);
  EXPECT_EQ(decoded->step, 3u);
  EXPECT_EQ(decoded->parts, parts.parts);
  EXPECT_THAT(decodeGathered(frame, 2).status().message(), HasSubstr("of 2 ranks, got 3"));
  for (size_t size = 0; size < frame.body.size(); ++size) {
    Frame cut = frame;
    cut.body.resize(size);
    EXPECT_EQ(decodeGathered(cut, 3).status().code(), StatusCode::BadInput) << size;
  }
  Frame longer = frame;
  longer.body += "x";
  EXPECT_FALSE(decodeGathered(longer, 3).isOk());
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
  for (size_t size = 0; size < 12; ++size)
    EXPECT_EQ(decodeCause(llvm::StringRef(body).take_front(size), 4).status().code(),
              StatusCode::BadInput);
  // A success is no cause.
  std::string success = body;
  success[8] = 0;
  EXPECT_FALSE(decodeCause(success, 4).isOk());
}

TEST(HostMessages, LongCausesAreCut) {
  const JobCause cause{Status(StatusCode::PeerFailed, std::string(100000, 'x')), 0};
  const auto decoded = decodeCause(encodeCause(cause), 1);
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(decoded->status.message().size(), size_t(16) << 10);
  EXPECT_FALSE(decodeCause(encodeCause(cause) + "x", 1).isOk());
}

TEST(HostMessages, APingComesAsItWas) {
  const std::string body = HostPing{.sentNs = 1, .otherNs = ~uint64_t(0)}.encode();
  const auto ping = HostPing::decode(body);
  ASSERT_TRUE(ping.isOk());
  EXPECT_EQ(ping->sentNs, 1u);
  EXPECT_EQ(ping->otherNs, ~uint64_t(0));
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(HostPing::decode(llvm::StringRef(body).take_front(size)).isOk());
  EXPECT_FALSE(HostPing::decode(body + "x").isOk());
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
  appendSlots(memory, first, count, offset, body);
  return body;
}

TEST(HostMessages, SlotsComeAsTheyWere) {
  JobMemory from = memoryOf(4), to = memoryOf(4);
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
  JobMemory from = memoryOf(2), to = memoryOf(2);
  fillSlot(from.slot(0), 1000000, 1);
  ASSERT_TRUE(applySlots(bodyOf(from, 0, 2, 500), to, -70, isAnyRank()).isOk());
  EXPECT_EQ(to.slot(0).heartbeatNs, 1000002u + 430);
  EXPECT_EQ(to.slot(0).activitySinceNs, 1000001u + 430);
  EXPECT_EQ(to.slot(0).queue[0].sinceNs, 1000012u + 430);
  EXPECT_EQ(to.slot(0).issued, 1000003u);
  EXPECT_EQ(to.slot(1).heartbeatNs, 0u);
}

TEST(HostMessages, NobodySpeaksForRanksOfOthers) {
  JobMemory from = memoryOf(4), to = memoryOf(4);
  for (int64_t rank = 0; rank < 4; ++rank)
    fillSlot(from.slot(rank), 1000, 1);
  const std::string before = bodyOf(to, 0, 2);
  auto isTheirs = [](int64_t rank) { return rank >= 2; };
  const Status status = applySlots(bodyOf(from, 2, 2) + bodyOf(from, 1, 1), to, 0, isTheirs);
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_EQ(bodyOf(to, 0, 2), before);
  for (const uint32_t rank : {4u, 5u, 1u << 31, ~0u}) {
    std::string body;
    append(body, rank);
    body += bodyOf(from, 0, 1).substr(4);
    EXPECT_FALSE(applySlots(body, to, 0, isAnyRank()).isOk()) << rank;
  }
}

TEST(HostMessages, HalfASlotChangesNothing) {
  JobMemory from = memoryOf(1);
  fillSlot(from.slot(0), 1000, 3);
  const std::string body = bodyOf(from, 0, 1);
  for (size_t size = 1; size < body.size(); ++size) {
    JobMemory to = memoryOf(1);
    const std::string before = bodyOf(to, 0, 1);
    const Status status = applySlots(llvm::StringRef(body).take_front(size), to, 0, isAnyRank());
    ASSERT_EQ(status.code(), StatusCode::BadInput) << size;
    ASSERT_EQ(bodyOf(to, 0, 1), before) << size;
  }
}

TEST(HostMessages, QueuesHaveABound) {
  JobMemory memory = memoryOf(1);
  std::string body;
  append(body, uint32_t(0));
  append(body, kQueueSlots + 1);
  body += std::string(100000, 'x');
  EXPECT_THAT(applySlots(body, memory, 0, isAnyRank()).message(), HasSubstr("at most 32 queues"));
  // A slot that says so itself is cut.
  memory.slot(0).queues = ~0u;
  JobMemory to = memoryOf(1);
  EXPECT_TRUE(applySlots(bodyOf(memory, 0, 1), to, 0, isAnyRank()).isOk());
}

TEST(HostMessages, RandomBytesEndWithAMessage) {
  std::mt19937 dice(11);
  JobMemory memory = memoryOf(4);
  for (int round = 0; round < 20000; ++round) {
    std::string body(dice() % 200, '\0');
    for (char &c : body)
      c = static_cast<char>(dice() % 4 == 0 ? dice() : 0);
    (void)HostHello::decode(body);
    (void)HostPing::decode(body);
    const auto cause = decodeCause(body, 4);
    ASSERT_TRUE(!cause || !cause->status.isOk());
    (void)decodeGathered({.kind = FrameKind::HostGather, .body = body}, 4);
    (void)applySlots(body, memory, 5, isAnyRank());
  }
}

} // namespace
} // namespace braid
