//===- tests/bootstrap/hostile_test.cpp - hostile peers, and a job that stays exact -----------===//

#include "tests/bootstrap/bootstrap_test.h"
#include "tests/bootstrap/raw_socket.h"

#include <array>
#include <deque>

#include <sys/mman.h>
#include <unistd.h>

namespace braid {
namespace {

constexpr int64_t kRanks = 4;
constexpr int kPeers = 1000;
constexpr int kSteps = 200;

/// One who connects and means no good. Stays open until it is destroyed.
class UnauthenticatedPeer {
public:
  UnauthenticatedPeer(int kind, const std::string &name)
      : socket_(connectRaw(name)), wasConnected_(socket_.isValid()) {
    if (wasConnected_)
      attack(kind % kKinds);
  }
  bool wasConnected() const { return wasConnected_; }
  static constexpr int kSilent = 7, kKinds = 10;

private:
  void attack(int kind) {
    const std::string good = ClientHello{.job = "job", .rank = 3, .ranks = kRanks}.encode();
    switch (kind) {
    case 0:
      return send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    case 1: // another version
      return send("2" + good);
    case 2:
      return send(std::string(100000, 'x'));
    case 3: // half of a hello
      return send(good.substr(0, 4));
    case 4:
      return socket_.reset();
    case 5:
      return send(ClientHello{.job = "another job", .rank = 3, .ranks = kRanks}.encode());
    case 6: // no rank of that many
      return send(ClientHello{.job = "job", .rank = kRanks, .ranks = kRanks}.encode());
    case kSilent: // connected, and never heard of again
      return;
    case 8:
      return send(good, 2);
    default: // a client's message without a hello
      return send("Oarena", 1);
    }
  }
  void send(const std::string &bytes, size_t descriptors = 0) {
    sendRaw(socket_.get(), bytes, std::vector(descriptors, STDERR_FILENO));
  }

  FileDescriptor socket_;
  bool wasConnected_;
};

/// Keeps some hundred of them open at a time.
class Crowd {
public:
  void add(const std::string &name) {
    peers_.emplace_back(came_, name);
    connected_ += peers_.back().wasConnected();
    ++came_;
    if (peers_.size() > 300)
      peers_.pop_front();
  }
  int came() const { return came_; }
  int connected() const { return connected_; }

private:
  std::deque<UnauthenticatedPeer> peers_;
  int came_ = 0, connected_ = 0;
};

/// A rank that does what ranks do, and finds everything exact.
void runRank(const std::string &name, int64_t rank) {
  auto client = joinAs(name, rank, kRanks);
  ASSERT_TRUE(client);
  for (int step = 0; step < kSteps; ++step) {
    auto textOf = [&](int64_t of) { return std::to_string(of) + " at " + std::to_string(step); };
    FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
    std::array<int64_t, 2> mine{rank, step}, theirs{};
    ASSERT_EQ(pwrite(memory.get(), &mine, sizeof mine, 0), static_cast<ssize_t>(sizeof mine));
    ASSERT_TRUE(client->offer("arena", memory.get()).isOk());
    auto parts = client->allGather(textOf(rank));
    ASSERT_TRUE(parts.isOk()) << parts.status().message();
    ASSERT_EQ(*parts, (std::vector{textOf(0), textOf(1), textOf(2), textOf(3)}));
    int64_t peer = (rank + 1 + step % (kRanks - 1)) % kRanks;
    auto other = client->want(peer, "arena");
    ASSERT_TRUE(other.isOk()) << other.status().message();
    ASSERT_EQ(pread(other->get(), &theirs, sizeof theirs, 0), static_cast<ssize_t>(sizeof theirs));
    ASSERT_EQ(theirs, (std::array<int64_t, 2>{peer, step}));
    // Nobody offers anew what others have still to fetch.
    ASSERT_TRUE(client->allGather("").isOk());
  }
}

TEST(Hostile, AThousandUnauthenticatedPeersDoNoHarm) {
  size_t descriptors = countDescriptors();
  {
    Host host({.ranks = kRanks, .job = "job"});
    std::vector<std::thread> ranks;
    Crowd crowd;
    auto letIn = [&](int64_t rank) {
      ranks.emplace_back([&, rank] { runRank(host.name(), rank); });
    };
    letIn(0);
    auto hasJoined = [&] { return host.memory->slot(0).state.load() != 0; };
    ASSERT_TRUE(eventually(hasJoined));
    // The other ranks come in the midst of them, the last one late: the door is open until then.
    while (crowd.came() < kPeers) {
      crowd.add(host.name());
      if (crowd.came() == 300 || crowd.came() == 600)
        letIn(crowd.came() / 300);
      if (crowd.came() == 970)
        letIn(3);
    }
    for (std::thread &rank : ranks)
      rank.join();
    EXPECT_GE(crowd.connected(), 970);
    EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
    EXPECT_FALSE(host.memory->isAborted());
    EXPECT_GE(host.rendezvous->dropped(), 500u);
    std::printf("%d unauthenticated peers connected, %d came too late\n", crowd.connected(),
                crowd.came() - crowd.connected());
  }
  EXPECT_EQ(countDescriptors(), descriptors);
}

TEST(Hostile, SilentOnesAreDroppedInTime) {
  Host host({.ranks = 2, .job = "job"});
  UnauthenticatedPeer silent(UnauthenticatedPeer::kSilent, host.name());
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return host.rendezvous->dropped() == 1; }));
  auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(time, 1s);
  EXPECT_LT(time, 10s);
}

TEST(Hostile, ACrowdOfSilentOnesKeepsNobodyOut) {
  Host host({.ranks = 1, .job = "job"});
  std::deque<UnauthenticatedPeer> crowd;
  size_t before = countDescriptors();
  for (int i = 0; i < 200; ++i)
    crowd.emplace_back(UnauthenticatedPeer::kSilent, host.name());
  // Far fewer are waited for than have come: the host holds few of the other ends at any time.
  size_t most = 0;
  EXPECT_TRUE(eventually([&] {
    most = std::max(most, countDescriptors());
    return host.rendezvous->dropped() >= 200 - 64;
  }));
  EXPECT_LT(most, before + 200 + 64 + 10);
  EXPECT_TRUE(joinAs(host.name(), 0, 1));
}

} // namespace
} // namespace braid
