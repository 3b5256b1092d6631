//===- tests/backends/order_test.cpp - conformance: streams, events and flags -----------------===//

#include "tests/backends/backend_test.h"

namespace braid::test {
namespace {

class OrderTest : public BackendTest {
protected:
  void copyFloat(uint32_t stream, void *dst, const void *src, int64_t rank = 0) {
    device(rank).copy(stream, tag(CommandKind::Copy, rank), dst, src, sizeof(float));
  }
  void addFloat(uint32_t stream, void *dst, const void *src, int64_t rank = 0) {
    PointwiseArgs args{DType::F32, 1, dst, {DType::F32, dst}, 1, {}};
    args.steps[0] = {PointwiseFunction::Add, {DType::F32, src}};
    device(rank).compute().pointwise(stream, tag(CommandKind::Pointwise, rank), args);
  }
  void signal(uint32_t stream, void *flag, uint32_t epoch, int64_t rank = 0) {
    test::signal(device(rank), stream, tag(CommandKind::Signal, rank), flag, epoch);
  }
  void await(uint32_t stream, const void *flag, uint32_t epoch, int64_t rank = 0) {
    test::await(device(rank), stream, tag(CommandKind::Await, rank), flag, epoch);
  }
  void record(uint32_t stream, uint32_t event) {
    device().record(stream, tag(CommandKind::Record), event);
  }
  void waitEvent(uint32_t stream, uint32_t event) {
    device().waitEvent(stream, tag(CommandKind::WaitEvent), event);
  }
  float value(const void *memory) { return download<float>(memory, 1)[0]; }
};

TEST_P(OrderTest, StreamIsInIssueOrder) {
  BRAID_NEEDS_RESULTS();
  start(1);
  float *sum = upload<float>({0}), *one = upload<float>({1}), *three = upload<float>({3});
  // Issues more commands than any queue can hold. Sums and overwrites do not commute.
  for (int i = 0; i < 5000; ++i) {
    addFloat(2, sum, one);
    if (i == 4000)
      copyFloat(2, sum, three);
  }
  EXPECT_EQ(value(sum), 3 + 999);
}

TEST_P(OrderTest, EventOrdersTwoStreams) {
  BRAID_NEEDS_RESULTS();
  start(1);
  float *one = upload<float>({1}), *a = upload<float>({0}), *b = upload<float>({0});
  for (int i = 0; i < 300; ++i) {
    addFloat(0, a, one);
    record(0, 0);
    waitEvent(1, 0);
    copyFloat(1, b, a);
    record(1, 1);
    waitEvent(0, 1);
  }
  EXPECT_EQ(value(b), 300);
}

TEST_P(OrderTest, WaitMeansTheRecordBeforeIt) {
  BRAID_NEEDS_RESULTS();
  start(1);
  char *flag = allocateFlags(1);
  float *one = upload<float>({1}), *a = upload<float>({0});
  record(0, 0);
  waitEvent(1, 0);
  copyFloat(1, a, one);
  signal(1, flag, 1);
  await(0, flag, 1); // would deadlock if the wait referred to the next record
  record(0, 0);
  EXPECT_EQ(value(a), 1);
}

TEST_P(OrderTest, ManyStreamsForkAndJoin) {
  BRAID_NEEDS_RESULTS();
  constexpr uint32_t kStreams = 64;
  start(1, kStreams);
  float *one = upload<float>({1}), *sum = upload<float>({0});
  std::vector<float *> parts;
  for (uint32_t stream = 0; stream < kStreams; ++stream)
    parts.push_back(upload<float>({0}));
  for (int round = 0; round < 20; ++round) {
    record(0, 0);
    for (uint32_t stream = 1; stream < kStreams; ++stream) {
      waitEvent(stream, 0);
      addFloat(stream, parts[stream], one);
      record(stream, stream);
    }
    for (uint32_t stream = 1; stream < kStreams; ++stream) {
      waitEvent(0, stream);
      addFloat(0, sum, parts[stream]);
    }
  }
  EXPECT_EQ(value(sum), 63.0f * (20 * 21 / 2));
}

TEST_P(OrderTest, AwaitPassesOnEarlierAndLaterEpochs) {
  BRAID_NEEDS_RESULTS();
  start(1);
  if (!device().peerMemory()->countsRuns())
    GTEST_SKIP() << "for good: flags of this backend hold a mark, no epoch";
  char *flag = allocateFlags(1);
  float *one = upload<float>({1}), *a = upload<float>({0});
  await(1, flag, 0); // flags start at 0
  signal(0, flag, 3);
  await(0, flag, 2);
  await(0, flag, 3);
  copyFloat(0, a, one);
  EXPECT_EQ(value(a), 1);
}

/// Every rank repeatedly passes its value to the next rank: the receiver waits, copies and signals
/// the sender, which then changes the value. Epochs start at `base`.
class RingTest : public OrderTest {
protected:
  static constexpr int64_t kRanks = 4;
  static constexpr uint32_t kRounds = 150;
  enum { kReady, kTaken };

  void run(uint32_t base) {
    start(kRanks);
    std::vector<float> sums(kRanks);
    onEveryRank([&](int64_t rank) { sums[rank] = runRank(rank, base); });
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      float expected = 0;
      for (uint32_t round = 1; round <= kRounds; ++round)
        expected += float((rank + kRanks - 1) % kRanks) * 1000 + float(round);
      EXPECT_EQ(sums[rank], expected) << "rank " << rank;
    }
  }

private:
  float runRank(int64_t rank, uint32_t base) {
    int64_t next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
    char *flags = allocateFlags(2, rank);
    void *mine = allocate(sizeof(float), rank, ArenaKind::Symmetric);
    std::vector<char *> theirFlags = exchange(rank, flags), values = exchange(rank, mine);
    float *one = upload<float>({1}, rank), *sum = upload<float>({0}, rank);
    void *taken = allocate(sizeof(float), rank);
    float initial = float(rank) * 1000;
    copyFloat(0, mine, &initial, rank);
    if (device(rank).peerMemory()->countsRuns()) // no rank awaits the last signal
      signal(0, flags + kReady * kFlagStride, base, rank);
    signal(0, flags + kTaken * kFlagStride, base, rank);
    EXPECT_TRUE(device(rank).synchronize().isOk());
    EXPECT_TRUE(control(rank).allGather(""));
    for (uint32_t round = 1; round <= kRounds; ++round) {
      uint32_t epoch = base + round;
      await(0, flags + kTaken * kFlagStride, epoch - 1, rank);
      addFloat(0, mine, one, rank);
      signal(0, theirFlags[next] + kReady * kFlagStride, epoch, rank);
      await(1, flags + kReady * kFlagStride, epoch, rank);
      copyFloat(1, taken, values[previous], rank);
      signal(1, theirFlags[previous] + kTaken * kFlagStride, epoch, rank);
      addFloat(1, sum, taken, rank);
    }
    return download<float>(sum, 1, rank)[0];
  }

  std::vector<char *> exchange(int64_t rank, void *mine) {
    Result<std::string> handle = device(rank).peerMemory()->exportMemory(mine);
    EXPECT_TRUE(handle);
    auto handles = control(rank).allGather(*handle);
    EXPECT_TRUE(handles);
    std::vector<char *> all;
    for (int64_t peer = 0; peer < kRanks; ++peer) {
      Result<void *> theirs = device(rank).peerMemory()->open(peer, (*handles)[peer]);
      EXPECT_TRUE(theirs);
      all.push_back(static_cast<char *>(*theirs));
    }
    return all;
  }
};

TEST_P(RingTest, NoSignalIsLostOrTakenTwice) {
  BRAID_NEEDS_RESULTS();
  run(0);
}

TEST_P(RingTest, EpochsWrapAround) {
  BRAID_NEEDS_RESULTS();
  run(0xffffffffu - 70);
}

BRAID_CONFORMANCE(OrderTest);
BRAID_CONFORMANCE(RingTest);

} // namespace
} // namespace braid::test
