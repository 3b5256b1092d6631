//===- tests/network/connect_hosts_test.cpp - messages of ranks of several hosts --------------===//

#include "backends/cpu/messages/connect_processes.h"
#include "runtime/job/network/byte_stream.h"
#include "tests/network/hosts_test.h"

#include <deque>

#include <netinet/in.h>

namespace braid {
namespace {

/// Ranks of a job that is all in this process.
class RanksOfHosts {
public:
  explicit RanksOfHosts(const JobShape &shape)
      : shape_(shape), groups_(static_cast<size_t>(shape.ranks())) {
    TcpListener listener = listenHere();
    const TcpAddress at = listener.address;
    hosts_.push_back(JobHost::zero(shape, std::move(listener)));
    for (int64_t number = 1; number < shape.hosts; ++number) {
      auto other = JobHost::other(shape, number, at);
      EXPECT_TRUE(other.isOk()) << other.status().message();
      hosts_.push_back(std::move(*other));
    }
    for (int64_t rank = 0; rank < shape.ranks(); ++rank) {
      JobHost &host = *hosts_[static_cast<size_t>(rank / shape.perHost)];
      auto client =
          Client::join(host.path(), {.job = "job", .rank = rank, .ranks = shape.ranks()}, soon());
      EXPECT_TRUE(client.isOk()) << client.status().message();
      auto &group = groups_[static_cast<size_t>(rank)];
      group = std::make_unique<ProcessGroup>(std::move(*client), 20s);
      EXPECT_TRUE(group->start().isOk());
    }
  }
  template <class Body> void onRanks(Body body) {
    onAllRanks(shape_.ranks(), [&](int64_t rank) { body(*groups_[static_cast<size_t>(rank)]); });
  }
  JobMemory &memory(int64_t host) { return hosts_[static_cast<size_t>(host)]->memory(); }

private:
  const JobShape shape_;
  std::vector<std::unique_ptr<JobHost>> hosts_;
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
};

void writeAll(Carrier &carrier, llvm::StringRef text) {
  ASSERT_TRUE(eventually([&] {
    const auto count = carrier.write("", text);
    EXPECT_TRUE(count.isOk()) << count.status().message();
    text = text.drop_front(count ? *count : text.size());
    return text.empty() && !carrier.hasUnsent();
  }));
}

std::string readAll(Carrier &carrier, size_t bytes) {
  std::string text;
  char place[100];
  EXPECT_TRUE(eventually([&] {
    const auto count = carrier.read(place);
    EXPECT_TRUE(count.isOk()) << count.status().message();
    text.append(place, count ? *count : 0);
    return text.size() >= bytes || !count;
  }));
  return text;
}

std::string fromTo(int64_t from, int64_t to) {
  return "from " + std::to_string(from) + " to " + std::to_string(to);
}

/// Both directions of all pairs.
void expectAllPairs(ProcessGroup &group) {
  auto carriers = connectProcesses(group);
  ASSERT_TRUE(carriers.isOk()) << carriers.status().message();
  ASSERT_EQ(static_cast<int64_t>(carriers->size()), group.size());
  auto to = [&](int64_t peer) -> Carrier & { return *(*carriers)[static_cast<size_t>(peer)]; };
  for (int64_t peer = 0; peer < group.size(); ++peer)
    if (peer != group.rank())
      writeAll(to(peer), fromTo(group.rank(), peer));
  for (int64_t peer = 0; peer < group.size(); ++peer)
    if (peer != group.rank()) {
      const std::string text = fromTo(peer, group.rank());
      EXPECT_EQ(readAll(to(peer), text.size()), text);
    }
  ASSERT_TRUE(group.allGather("done").isOk());
}

TEST(ConnectHosts, AllPairsAreConnected) {
  RanksOfHosts ranks({.hosts = 3, .perHost = 2});
  ranks.onRanks(expectAllPairs);
}

/// Of this process.
std::vector<uint16_t> listeningPorts() {
  std::vector<uint16_t> ports;
  for (int number = 0; number < 1000; ++number) {
    int isListening = 0;
    socklen_t size = sizeof isListening;
    sockaddr_in address{};
    socklen_t bytes = sizeof address;
    if (getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &size) == 0 && isListening &&
        getsockname(number, reinterpret_cast<sockaddr *>(&address), &bytes) == 0 &&
        address.sin_family == AF_INET)
      ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

/// Those who do not know the key stand at all ranks' acceptors.
TEST(ConnectHosts, UnauthenticatedPeersKeepNobodyFromIt) {
  RanksOfHosts ranks({.hosts = 3, .perHost = 1});
  std::atomic<bool> isOver{false};
  std::thread others([&] {
    std::deque<FileDescriptor> peers;
    while (!isOver) {
      for (const uint16_t port : listeningPorts()) {
        auto peer = ByteStream::connect("127.0.0.1", port, "a rank", false, deadlineIn(1s));
        if (!peer)
          continue;
        (void)peer->write("braid001, and much more of it", deadlineIn(1s));
        peers.push_back(peer->release());
        if (peers.size() > 500)
          peers.pop_front();
      }
    }
  });
  ranks.onRanks([&](ProcessGroup &group) {
    // Some ranks are late, so that the acceptors of others stay open for a while.
    std::this_thread::sleep_for(group.rank() * 50ms);
    expectAllPairs(group);
  });
  isOver = true;
  others.join();
  EXPECT_FALSE(ranks.memory(0).isAborted());
}

TEST(ConnectHosts, AnAbortEndsTheWait) {
  RanksOfHosts ranks({.hosts = 2, .perHost = 1});
  ranks.onRanks([&](ProcessGroup &group) {
    if (group.rank() == 1) {
      // It takes part as far as others hear where it listens, and then fails.
      ASSERT_TRUE(group.allGather("offered").isOk());
      ASSERT_TRUE(group.allGather("connected").isOk());
      std::string place;
      append(place, uint16_t(9));
      append(place, uint32_t(0));
      ASSERT_TRUE(group.allGather(place + "127.0.0.1").isOk());
      group.abort(Status(StatusCode::PeerFailed, "rank 1 gives up"));
      return;
    }
    const auto carriers = connectProcesses(group);
    ASSERT_FALSE(carriers.isOk());
    EXPECT_EQ(carriers.status().message(), "rank 1 gives up");
  });
}

} // namespace
} // namespace braid
