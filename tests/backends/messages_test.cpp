//===- tests/backends/messages_test.cpp - message groups and collectives of devices -----------===//

#include "tests/backends/backend_test.h"
#include "tests/support/elements.h"

#include "llvm/ADT/STLExtras.h"

#include <gmock/gmock.h>

#include <numeric>

namespace braid::test {
namespace {

using testing::HasSubstr;

class MessagesTest : public BackendTest {
protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!IsSkipped() && GetParam().backend != "cpu")
      GTEST_SKIP() << "for good: its messages are tested elsewhere";
  }

  /// Starts ranks and opens their message communicators.
  void open(int64_t count, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    start(count, 4, timeout);
    onEveryRank([this](int64_t rank) {
      EXPECT_EQ(message(device(rank).messages()->openTeams({}, control(rank))), "");
    });
  }
  void collective(int64_t rank, CollectiveArgs args) {
    device(rank).messages()->collective(1, {}, args);
  }
  static int64_t bytesOf(const std::vector<float> &values) {
    return static_cast<int64_t>(values.size() * sizeof(float));
  }
};

MessageArgs toPeer(int64_t peer, std::vector<float> &values) {
  return {Direction::Send, peer, DType::F32, values.data(),
          static_cast<int64_t>(values.size() * sizeof(float))};
}
MessageArgs fromPeer(int64_t peer, std::vector<float> &values) {
  return {Direction::Receive, peer, DType::F32, values.data(),
          static_cast<int64_t>(values.size() * sizeof(float))};
}

/// Sends messages of up to several frames in both directions. Each group contains several messages
/// to the same peer.
TEST_P(MessagesTest, GroupsExchangeInOrder) {
  constexpr int64_t kRanks = 3;
  const std::vector<size_t> sizes = {1, 0, 1 << 20, 7};
  open(kRanks);
  std::vector<std::vector<std::vector<float>>> sent(kRanks), received(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank)
    for (int64_t peer = 0; peer < kRanks; ++peer)
      for (size_t i = 0; i < sizes.size(); ++i) {
        auto &values = sent[static_cast<size_t>(rank)].emplace_back(sizes[i]);
        std::iota(values.begin(), values.end(), static_cast<float>(rank * 100 + peer * 10) + i);
        received[static_cast<size_t>(rank)].emplace_back(sizes[i]);
      }
  onEveryRank([&](int64_t rank) {
    for (int run = 0; run < 3; ++run) {
      std::vector<MessageArgs> group;
      for (int64_t peer = 0; peer < kRanks; ++peer)
        for (size_t i = 0; i < sizes.size() && peer != rank; ++i) {
          const size_t at = static_cast<size_t>(peer) * sizes.size() + i;
          group.push_back(toPeer(peer, sent[static_cast<size_t>(rank)][at]));
          group.push_back(fromPeer(peer, received[static_cast<size_t>(rank)][at]));
        }
      device(rank).messages()->group(1, {}, group);
    }
    EXPECT_EQ(message(device(rank).synchronize()), "");
  });
  for (int64_t rank = 0; rank < kRanks; ++rank)
    for (int64_t peer = 0; peer < kRanks; ++peer)
      for (size_t i = 0; i < sizes.size() && peer != rank; ++i)
        EXPECT_EQ(received[static_cast<size_t>(rank)][static_cast<size_t>(peer) * sizes.size() + i],
                  sent[static_cast<size_t>(peer)][static_cast<size_t>(rank) * sizes.size() + i]);
}

/// Tests reductions that are larger than a slice of scratch memory, a team whose ranks are not in
/// ascending order, and operators other than sums.
TEST_P(MessagesTest, CollectivesCombine) {
  constexpr size_t kCount = size_t(5) << 20;
  const Team team = {2, 0};
  open(3);
  std::vector<std::vector<float>> all(3, std::vector<float>(kCount)), some(3), to(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    some[rank] = {static_cast<float>(rank + 1), static_cast<float>(10 * (rank + 1))};
    to[rank].assign(1, -1);
  }
  const Team everybody = {0, 1, 2};
  std::vector<std::vector<float>> source(3);
  for (size_t rank = 0; rank < 3; ++rank)
    source[rank].assign(kCount, static_cast<float>(rank + 1));
  onEveryRank([&](int64_t r) {
    const auto rank = static_cast<size_t>(r);
    collective(r, {CollectiveKind::AllReduce, ReductionOperator::Product, DType::F32, everybody, -1,
                   all[rank].data(), source[rank].data(), bytesOf(all[rank]), bytesOf(all[rank])});
    if (r != 1)
      collective(r, {CollectiveKind::ReduceScatter, ReductionOperator::Max, DType::F32, team, -1,
                     to[rank].data(), some[rank].data(), 4, 8});
    EXPECT_EQ(message(device(r).synchronize()), "");
  });
  for (size_t rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(llvm::all_of(all[rank], [](float value) { return value == 6; })) << rank;
  EXPECT_EQ(to[2][0], 3); // the first block belongs to the team's first rank
  EXPECT_EQ(to[0][0], 30);
  EXPECT_EQ(to[1][0], -1);
}

TEST_P(MessagesTest, SidesThatDoNotFitAreNamed) {
  open(2);
  std::vector<float> two(2), three(3);
  std::vector<std::string> texts(2);
  onEveryRank([&](int64_t rank) {
    const Tag issued = tag(CommandKind::Copy, rank, 4);
    const MessageArgs side = rank == 0 ? toPeer(1, two) : fromPeer(0, three);
    device(rank).messages()->group(1, issued, side);
    texts[static_cast<size_t>(rank)] = message(device(rank).synchronize());
  });
  for (const std::string &text : texts) {
    EXPECT_THAT(text, HasSubstr("message 0 from rank 0 to rank 1"));
    EXPECT_THAT(text, HasSubstr("8 bytes are sent in "));
    EXPECT_THAT(text, HasSubstr("12 are received in "));
    EXPECT_THAT(text, HasSubstr("run 4"));
  }
}

TEST_P(MessagesTest, ASendWaitsForItsReceive) {
  open(2, std::chrono::milliseconds(300));
  std::vector<float> value(1), got(1);
  onEveryRank([&](int64_t rank) {
    device(rank).messages()->group(1, {}, toPeer(1 - rank, value));
    device(rank).messages()->group(1, {}, fromPeer(1 - rank, got));
    const Status status = device(rank).synchronize();
    EXPECT_EQ(status.code(), StatusCode::TimedOut) << status.message();
  });
}

/// Operations run in issue order even if they are on different streams. No other synchronization
/// orders these streams, so each stream has separate memory.
TEST_P(MessagesTest, OneStreamAtATime) {
  constexpr size_t kOperations = 200;
  open(2);
  std::vector<float> value(1, 5);
  std::vector<std::vector<std::vector<float>>> got(
      2, std::vector<std::vector<float>>(kOperations, std::vector<float>(1)));
  onEveryRank([&](int64_t rank) {
    for (size_t i = 0; i < kOperations; ++i)
      device(rank).messages()->group(static_cast<uint32_t>(1 + i % 3), {},
                                     rank == static_cast<int64_t>(i % 2)
                                         ? toPeer(1 - rank, value)
                                         : fromPeer(1 - rank, got[static_cast<size_t>(rank)][i]));
    EXPECT_EQ(message(device(rank).synchronize()), "");
  });
  for (size_t i = 0; i < kOperations; ++i)
    EXPECT_EQ(got[1 - i % 2][i][0], 5);
}

TEST_P(MessagesTest, GraphsSendAnew) {
  open(2);
  std::vector<std::vector<float>> value(2, std::vector<float>(1)), got(2, std::vector<float>(1));
  onEveryRank([&](int64_t r) {
    const auto rank = static_cast<size_t>(r);
    Graphs &graphs = *device(r).graphs();
    EXPECT_TRUE(graphs.beginCapture().isOk());
    device(r).messages()->group(1, {}, {toPeer(1 - r, value[rank]), fromPeer(1 - r, got[rank])});
    const Result<uint32_t> graph = graphs.endCapture();
    for (uint32_t run = 1; run <= 3; ++run) {
      value[rank][0] = static_cast<float>(run * 10) + static_cast<float>(r);
      graphs.launch(*graph, {&plan(r), kNone, run});
      EXPECT_EQ(message(device(r).synchronize()), "");
      EXPECT_EQ(got[rank][0], static_cast<float>(run * 10) + static_cast<float>(1 - r));
    }
  });
}

BRAID_CONFORMANCE(MessagesTest);

} // namespace
} // namespace braid::test
