//===- tests/backends/memory_test.cpp - conformance: memory and copies ------------------------===//

#include "tests/backends/backend_test.h"

#include <numeric>

namespace braid::test {
namespace {

class MemoryTest : public BackendTest {};

TEST_P(MemoryTest, IsAligned) {
  start(1);
  for (ArenaKind kind : {ArenaKind::Symmetric, ArenaKind::Private})
    for (int64_t bytes : {0, 1, 255, 256, 257, 1000003}) {
      Result<void *> memory = device().allocate(kind, bytes);
      ASSERT_TRUE(memory) << memory.status().message();
      EXPECT_NE(*memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 256, 0u);
    }
}

TEST_P(MemoryTest, RefusesWhatNoMachineHas) {
  start(1);
  for (int64_t bytes : {int64_t(1) << 60, int64_t(-1)}) {
    Result<void *> memory = device().allocate(ArenaKind::Private, bytes);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.status().code(), StatusCode::Unsupported);
  }
}

TEST_P(MemoryTest, CopiesExactlyTheBytes) {
  BRAID_NEEDS_RESULTS();
  start(1);
  std::vector<char> from(10007);
  std::iota(from.begin(), from.end(), char(1));
  char *src = upload(from);
  for (int64_t bytes : {0, 1, 3, 8, 4096, 10000}) {
    char *dst = upload(std::vector<char>(10007, 'x'));
    device().copy(1, tag(CommandKind::Copy), dst + 5, src + 3, bytes);
    std::vector<char> expected(10007, 'x');
    std::copy_n(from.begin() + 3, bytes, expected.begin() + 5);
    EXPECT_EQ(download<char>(dst, 10007), expected) << bytes << " bytes";
  }
}

TEST_P(MemoryTest, IsExportedOnlyIfSymmetric) {
  start(1);
  void *memory = allocate(64, 0, ArenaKind::Private);
  Result<std::string> handle = device().peerMemory()->exportMemory(memory);
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.status().code(), StatusCode::BadInput);
}

TEST_P(MemoryTest, OpensOnlyHandlesOfThatPeer) {
  start(2);
  Result<std::string> handle =
      device(0).peerMemory()->exportMemory(allocate(64, 0, ArenaKind::Symmetric));
  ASSERT_TRUE(handle);
  EXPECT_TRUE(device(1).peerMemory()->open(0, *handle));
  for (const std::string &wrong : {*handle, std::string("nonsense"), std::string()}) {
    Result<void *> memory = device(0).peerMemory()->open(1, wrong);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.status().code(), StatusCode::BadInput);
  }
}

TEST_P(MemoryTest, IsZeroedWhenItIsHandedOutAgain) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (ArenaKind kind : {ArenaKind::Symmetric, ArenaKind::Private, ArenaKind::Flags})
    for (int64_t bytes : {64, 1000, 300000, 200000}) {
      const std::vector<char> zeros(static_cast<size_t>(bytes), 0), ones(zeros.size(), 1);
      void *memory = allocate(bytes, 0, kind);
      EXPECT_EQ(download<char>(memory, zeros.size()), zeros);
      device().copy(0, tag(CommandKind::Copy), memory, ones.data(), bytes);
      EXPECT_EQ(download<char>(memory, zeros.size()), ones);
      device().release(memory);
      device().recycle();
    }
}

/// Released memory remains in use until it is recycled.
TEST_P(MemoryTest, KeepsWhatIsOnlyReleased) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (ArenaKind kind : {ArenaKind::Symmetric, ArenaKind::Private, ArenaKind::Flags}) {
    void *old = allocate(1000, 0, kind);
    device().release(old);
    void *other = allocate(1000, 0, kind);
    EXPECT_NE(old, other);
    const std::vector<char> ones(1000, 1), zeros(1000, 0);
    device().copy(0, tag(CommandKind::Copy), old, ones.data(), 1000);
    EXPECT_EQ(download<char>(other, 1000), zeros);
    EXPECT_EQ(download<char>(old, 1000), ones);
  }
}

/// Repeats often enough that a leak would exceed any limit on exported or mapped memory.
TEST_P(MemoryTest, IsReachedByPeersWhenItIsHandedOutAgain) {
  start(2);
  onEveryRank([&](int64_t rank) {
    for (int round = 0; round < 600; ++round) {
      const int64_t bytes = 100 + round % 7 * 30000, peer = 1 - rank;
      void *mine = allocate(bytes, rank, round % 2 ? ArenaKind::Flags : ArenaKind::Symmetric);
      Result<std::string> handle = device(rank).peerMemory()->exportMemory(mine);
      ASSERT_TRUE(handle) << message(handle.status());
      auto handles = control(rank).allGather(*handle);
      ASSERT_TRUE(handles) << message(handles.status());
      Result<void *> theirs = device(rank).peerMemory()->open(peer, (*handles)[size_t(peer)]);
      ASSERT_TRUE(theirs) << message(theirs.status());
      int sent = 10 * round + int(rank), seen = -1;
      char *end = static_cast<char *>(*theirs) + bytes - 4;
      device(rank).copy(0, tag(CommandKind::Copy, rank), end, &sent, sizeof sent);
      ASSERT_EQ(message(device(rank).synchronize()), "");
      ASSERT_TRUE(control(rank).allGather("sent"));
      end = static_cast<char *>(mine) + bytes - 4;
      device(rank).copy(0, tag(CommandKind::Copy, rank), &seen, end, sizeof seen);
      ASSERT_EQ(message(device(rank).synchronize()), "");
      ASSERT_TRUE(!computes() || seen == 10 * round + int(peer)) << seen << " in " << round;
      device(rank).release(mine);
      ASSERT_TRUE(control(rank).allGather("seen"));
      device(rank).recycle();
    }
  });
}

TEST_P(MemoryTest, EventsThatWereReleasedHoldNothingUp) {
  start(1);
  for (int round = 0; round < 20; ++round) {
    Result<uint32_t> first = device().createEvents(3);
    ASSERT_TRUE(first);
    device().waitEvent(1, tag(CommandKind::WaitEvent), *first + 2);
    device().record(0, tag(CommandKind::Record), *first + 2);
    device().waitEvent(1, tag(CommandKind::WaitEvent), *first + 2);
    ASSERT_EQ(message(device().synchronize()), "");
    device().releaseEvents(*first);
    device().recycle();
  }
}

BRAID_CONFORMANCE(MemoryTest);

} // namespace
} // namespace braid::test
