//===- tests/backends/control_plane_test.cpp - conformance: the control plane -----------------===//

#include "tests/backends/backend_test.h"

#include <atomic>
#include <thread>

namespace braid::test {
namespace {

class ControlPlaneTest : public BackendTest {};

TEST_P(ControlPlaneTest, GathersInRankOrder) {
  constexpr int kRounds = 200;
  start(5);
  onEveryRank([&](int64_t rank) {
    EXPECT_EQ(control(rank).rank(), rank);
    EXPECT_EQ(control(rank).size(), 5);
    for (int round = 0; round < kRounds; ++round) {
      std::string mine(round % 7, char('a' + rank));
      auto texts = control(rank).allGather(std::to_string(round) + mine);
      ASSERT_TRUE(texts) << texts.status().message();
      ASSERT_EQ(texts->size(), 5u);
      for (int64_t peer = 0; peer < 5; ++peer)
        ASSERT_EQ((*texts)[peer], std::to_string(round) + std::string(round % 7, char('a' + peer)));
    }
  });
}

TEST_P(ControlPlaneTest, CarriesAnyBytes) {
  start(2);
  std::string bytes("\0\n\xff", 3);
  bytes.resize(1 << 20, 'z');
  onEveryRank([&](int64_t rank) {
    auto texts = control(rank).allGather(rank == 0 ? bytes : "");
    ASSERT_TRUE(texts);
    EXPECT_EQ((*texts)[0], bytes);
    EXPECT_EQ((*texts)[1], "");
  });
}

TEST_P(ControlPlaneTest, CommitsTogether) {
  start(4);
  onEveryRank([&](int64_t rank) {
    for (int step = 0; step < 10; ++step) {
      control(rank).tick();
      EXPECT_EQ(message(control(rank).commit()), "");
    }
  });
}

TEST_P(ControlPlaneTest, CommitFailsForAllIfOneFailsFirst) {
  start(4);
  std::vector<Status> outcomes(4);
  onEveryRank([&](int64_t rank) {
    EXPECT_EQ(message(control(rank).commit()), "");
    if (rank == 2)
      control(rank).abort(Status(StatusCode::WrongResult, "rank 2 is wrong"));
    outcomes[rank] = control(rank).commit();
  });
  for (const Status &outcome : outcomes) {
    EXPECT_EQ(outcome.code(), StatusCode::WrongResult);
    EXPECT_EQ(outcome.message(), "rank 2 is wrong");
  }
}

/// One rank aborts the job while all ranks commit.
TEST_P(ControlPlaneTest, CommitIsForAllOrForNone) {
  for (int round = 0; round < 20; ++round) {
    start(3);
    std::vector<Status> outcomes(3);
    std::thread other([&] {
      for (std::atomic<int> delay{0}; delay.fetch_add(1) < round * 3000;)
        ;
      control(round % 3).abort(Status(StatusCode::PeerFailed, "too late?"));
    });
    onEveryRank([&](int64_t rank) { outcomes[rank] = control(rank).commit(); });
    other.join();
    for (const Status &outcome : outcomes)
      EXPECT_EQ(outcome.code(), outcomes[0].code()) << "round " << round;
    destroyCluster();
  }
}

TEST_P(ControlPlaneTest, RefusesNoRanksAndNoTime) {
  ClusterOptions none, negative, timeless;
  none.ranks = 0;
  negative.ranks = -3;
  timeless.timeout = std::chrono::milliseconds(0);
  for (const ClusterOptions &options : {none, negative, timeless})
    EXPECT_EQ(create(GetParam(), options).status().code(), StatusCode::BadInput);
}

BRAID_CONFORMANCE(ControlPlaneTest);

} // namespace
} // namespace braid::test
