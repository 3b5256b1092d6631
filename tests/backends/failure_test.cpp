//===- tests/backends/failure_test.cpp - conformance: every wait ends -------------------------===//

#include "tests/backends/backend_test.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

namespace braid::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kShort(200);
constexpr milliseconds kForever(600000);

class Stopwatch {
public:
  milliseconds elapsed() const {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin_);
  }

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class FailureTest : public BackendTest {
protected:
  void await(uint32_t stream, const void *flag, uint32_t epoch, int64_t rank) {
    test::await(device(rank), stream, tag(CommandKind::Await, rank, epoch), flag, epoch);
  }
  void signal(uint32_t stream, void *flag, uint32_t epoch, int64_t rank) {
    test::signal(device(rank), stream, tag(CommandKind::Signal, rank, epoch), flag, epoch);
  }
  static void expectSame(const Status &a, const Status &b) {
    EXPECT_EQ(a.code(), b.code());
    EXPECT_EQ(a.message(), b.message());
  }
};

TEST_P(FailureTest, SynchronizesTwiceAndWithoutWork) {
  start(2);
  onEveryRank([&](int64_t rank) {
    EXPECT_TRUE(device(rank).synchronize().isOk());
    device(rank).record(1, tag(CommandKind::Record, rank), 0);
    EXPECT_TRUE(device(rank).synchronize().isOk());
    EXPECT_TRUE(device(rank).synchronize().isOk());
  });
}

TEST_P(FailureTest, WaitWithoutSignalTimesOut) {
  BRAID_NEEDS_RESULTS();
  start(2, 4, kShort);
  std::vector<Status> outcomes(2);
  Stopwatch watch;
  onEveryRank([&](int64_t rank) {
    char *flag = allocateFlags(1, rank);
    if (rank == 0)
      await(1, flag, 3, rank);
    outcomes[rank] = device(rank).synchronize();
    if (outcomes[rank].isOk()) // rank 1 was not waiting; its next call reports the failure
      outcomes[rank] = control(rank).allGather("").status();
  });
  EXPECT_EQ(outcomes[0].code(), StatusCode::TimedOut);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("rank 0 is waiting for rank 1 in \"node 5\" at "
                                               "test.braid:15:5, run 3"));
  EXPECT_LT(watch.elapsed(), milliseconds(20000));
  // The failure is permanent on every rank.
  for (int64_t rank = 0; rank < 2; ++rank) {
    expectSame(outcomes[rank], outcomes[0]);
    expectSame(device(rank).synchronize(), outcomes[0]);
    expectSame(control(rank).allGather("").status(), outcomes[0]);
  }
}

/// A sum that waits for data that never arrives is also released.
TEST_P(FailureTest, ASumBehindAWaitEnds) {
  BRAID_NEEDS_RESULTS();
  start(1, 4, kShort);
  PeerMemory &peers = *device().peerMemory();
  const TransferMode kernels{CopyBy::Kernel, SignalBy::Default};
  const TransferMode mode = peers.offers(kernels) ? kernels : TransferMode();
  void *flag = allocate(kFlagStride, 0, peers.arenaOfFlags(mode));
  float *parts = upload<float>(std::vector<float>(40000, 1));
  const SumArgs sum{DType::F32,
                    DType::F32,
                    20000,
                    2,
                    20000 * sizeof(float),
                    parts,
                    nullptr,
                    0,
                    allocate(20000 * sizeof(float)),
                    DType::F32,
                    /*keepsParts=*/true};
  auto step = [&](CommandKind kind) {
    return BatchedCommand{kind, tag(kind).command, flag, nullptr, nullptr, 0, &sum};
  };
  peers.issueBatch(1, tag(CommandKind::Await), {step(CommandKind::Await), step(CommandKind::Sum)},
                   /*areDisjoint=*/true, mode);
  EXPECT_EQ(device().synchronize().code(), StatusCode::TimedOut);
  Stopwatch watch;
  destroyCluster(); // waits for kernels that are still running
  EXPECT_LT(watch.elapsed(), milliseconds(20000));
}

TEST_P(FailureTest, CircleOfRanksIsNamed) {
  BRAID_NEEDS_RESULTS();
  constexpr int64_t kRanks = 4;
  start(kRanks, 4, kShort);
  std::vector<Status> outcomes(kRanks);
  onEveryRank([&](int64_t rank) {
    char *flag = allocateFlags(1, rank);
    await(1, flag, 1, rank);
    device(rank).record(1, tag(CommandKind::Record, rank), 0);
    device(rank).waitEvent(0, tag(CommandKind::WaitEvent, rank), 0);
    outcomes[rank] = device(rank).synchronize();
  });
  EXPECT_EQ(outcomes[0].code(), StatusCode::TimedOut);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    expectSame(outcomes[rank], outcomes[0]);
    EXPECT_THAT(outcomes[0].message(),
                HasSubstr("rank " + std::to_string(rank) + " is waiting for rank " +
                          std::to_string((rank + 1) % kRanks) + " in \"node 5\""));
  }
}

TEST_P(FailureTest, RankThatNeverComesIsNamed) {
  BRAID_NEEDS_RESULTS();
  start(3, 4, kShort);
  for (int64_t rank : {0, 1})
    await(1, allocateFlags(1, rank), 1, rank);
  std::vector<Status> outcomes(2);
  std::thread zero([&] { outcomes[0] = device(0).synchronize(); });
  outcomes[1] = device(1).synchronize();
  zero.join();
  EXPECT_EQ(outcomes[0].code(), StatusCode::TimedOut);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("rank 2 is executing the caller's code"));
  expectSame(outcomes[0], outcomes[1]);
}

TEST_P(FailureTest, GatherNamesWhoIsMissing) {
  start(4, 1, kShort);
  std::vector<Status> outcomes(4);
  onEveryRank([&](int64_t rank) {
    if (rank == 0 || rank == 2)
      outcomes[rank] = control(rank).allGather("here").status();
  });
  EXPECT_EQ(outcomes[0].code(), StatusCode::TimedOut);
  for (const char *line : {"rank 0 is waiting for the other ranks in an all-gather",
                           "rank 1 is executing the caller's code",
                           "rank 2 is waiting for the other ranks in an all-gather",
                           "rank 3 is executing the caller's code"})
    EXPECT_THAT(outcomes[0].message(), HasSubstr(line));
  expectSame(outcomes[0], outcomes[2]);
}

TEST_P(FailureTest, AbortReleasesAllRanks) {
  BRAID_NEEDS_RESULTS();
  start(4, 4, kForever);
  std::vector<Status> outcomes(3);
  std::vector<std::thread> threads;
  for (int64_t rank : {0, 1, 2})
    threads.emplace_back([&, rank] {
      await(1, allocateFlags(1, rank), 1, rank);
      outcomes[rank] =
          rank == 2 ? control(rank).allGather("").status() : device(rank).synchronize();
    });
  std::this_thread::sleep_for(milliseconds(50));
  Stopwatch watch;
  control(3).abort(Status(StatusCode::PeerFailed, "rank 3 gave up"));
  control(3).abort(Status(StatusCode::Internal, "a later cause"));
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LT(watch.elapsed(), milliseconds(10000));
  for (const Status &outcome : outcomes)
    expectSame(outcome, Status(StatusCode::PeerFailed, "rank 3 gave up"));
}

TEST_P(FailureTest, NothingRunsAfterAnAbort) {
  BRAID_NEEDS_RESULTS();
  start(2, 4, kForever);
  if (!device().sharesHostMemory())
    GTEST_SKIP() << "for good: released streams of a GPU run on; their results do not count";
  destroyCluster();
  start(2, 4, kForever);
  char *flag = allocateFlags(1, 0);
  char *peerFlag = allocateFlags(1, 1);
  int from = 5, late = 0, later = 0;
  await(1, flag, 1, 0);
  device(0).copy(1, tag(CommandKind::Copy), &late, &from, sizeof(int));
  signal(1, peerFlag, 1, 0); // would let rank 1 continue
  await(1, peerFlag, 1, 1);
  device(1).copy(1, tag(CommandKind::Copy, 1), &later, &from, sizeof(int));
  control(0).abort(Status(StatusCode::PeerFailed, "stop"));
  device(0).copy(2, tag(CommandKind::Copy), &late, &from, sizeof(int));
  EXPECT_EQ(device(0).synchronize().message(), "stop");
  EXPECT_EQ(device(1).synchronize().message(), "stop");
  destroyCluster();
  EXPECT_EQ(late, 0);
  EXPECT_EQ(later, 0);
}

TEST_P(FailureTest, SlowHostIsNoFailureWithinTheTimeout) {
  BRAID_NEEDS_RESULTS();
  if (hasOneQueue())
    GTEST_SKIP() << "the test needs streams that do not share a queue";
  start(2);
  onEveryRank([&](int64_t rank) {
    char *flag = allocateFlags(1, rank);
    if (rank == 1)
      std::this_thread::sleep_for(milliseconds(150));
    await(1, flag, 1, rank);
    signal(2, flag, 1, rank);
    EXPECT_EQ(message(device(rank).synchronize()), "");
  });
}

TEST_P(FailureTest, DestructionEndsPendingWork) {
  start(2, 4, kForever);
  for (int64_t rank : {0, 1}) {
    char *flag = allocateFlags(1, rank);
    for (uint32_t stream = 0; stream < 4; ++stream)
      for (int i = 0; i < 1000; ++i)
        await(stream, flag, 1, rank);
  }
  Stopwatch watch;
  destroyCluster();
  EXPECT_LT(watch.elapsed(), milliseconds(10000));
}

BRAID_CONFORMANCE(FailureTest);

} // namespace
} // namespace braid::test
