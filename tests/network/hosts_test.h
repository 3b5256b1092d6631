//===- tests/network/hosts_test.h - jobs of several hosts in one process ----------------------===//
#pragma once

#include "runtime/job/network/host_zero.h"
#include "runtime/job/network/other_host.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <fstream>

#include <sys/socket.h>

namespace braid {

inline constexpr const char *kJobSecret = "what the tests' hosts know";
inline constexpr const char *kJobContext = "hosts of a job of a test";

struct JobShape {
  int64_t hosts = 2, perHost = 2;
  std::chrono::milliseconds join{30000}, silence{30000};
  int64_t ranks() const { return hosts * perHost; }
};

/// One host: its memory, and its rendezvous.
class JobHost {
public:
  /// `join`: what joins the memory with those of other hosts.
  template <class Join>
  static std::unique_ptr<JobHost> with(const JobShape &shape, const HostPlace &place, Join join) {
    auto host = std::unique_ptr<JobHost>(new JobHost(shape, place));
    host->start(shape, join(*host->memory_));
    return host;
  }

  static std::unique_ptr<JobHost> zero(const JobShape &shape, TcpListener listener) {
    return with(shape, {0, shape.hosts, "127.0.0.1"}, [&](JobMemory &memory) {
      return std::make_unique<HostZero>(std::move(listener), memory,
                                        HostOptions{.secret = kJobSecret,
                                                    .context = kJobContext,
                                                    .joinTimeout = shape.join,
                                                    .silence = shape.silence});
    });
  }

  static OtherHostOptions optionsOf(const JobShape &shape, int64_t number) {
    return {.host = number,
            .hosts = shape.hosts,
            .ranks = shape.ranks(),
            .secret = kJobSecret,
            .context = kJobContext,
            .silence = shape.silence};
  }

  /// Joins `at`, or says why not.
  static Result<std::unique_ptr<JobHost>> other(const JobShape &shape, int64_t number,
                                                const TcpAddress &at, Deadline deadline = soon()) {
    auto joined = joinHostZero(at, optionsOf(shape, number), deadline);
    if (!joined)
      return joined.status();
    return with(shape, {number, shape.hosts, "127.0.0.1"}, [&](JobMemory &memory) {
      return std::make_unique<OtherHost>(std::move(joined->link), memory, optionsOf(shape, number));
    });
  }

  JobMemory &memory() { return *memory_; }
  const std::string &path() const { return rendezvous_->path(); }
  Rendezvous &rendezvous() { return *rendezvous_; }
  std::unique_ptr<WatchedClient> join(int64_t rank) {
    return joinAs(path(), rank, memory_->ranks());
  }

private:
  JobHost(const JobShape &shape, const HostPlace &place) {
    auto made = JobMemory::create(shape.ranks(), place);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    memory_ = std::make_unique<JobMemory>(std::move(*made));
  }
  void start(const JobShape &shape, std::unique_ptr<OtherHosts> others) {
    auto endpoint = RendezvousEndpoint::open(base_.path(), "");
    EXPECT_TRUE(endpoint.isOk()) << endpoint.status().message();
    auto started = Rendezvous::start(
        std::move(*endpoint), *memory_,
        {.ranks = shape.ranks(), .job = "job", .joinTimeout = shape.join, .killsStragglers = false},
        std::move(others));
    EXPECT_TRUE(started.isOk()) << started.status().message();
    rendezvous_ = std::move(*started);
  }

  TemporaryBase base_;
  std::unique_ptr<JobMemory> memory_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

inline TcpListener listenHere() {
  auto listener = listenAt({"127.0.0.1", 0}, soon());
  EXPECT_TRUE(listener.isOk()) << listener.status().message();
  return std::move(*listener);
}

/// All hosts, and all ranks but those of hosts that are left out.
class JobOfHosts {
public:
  explicit JobOfHosts(const JobShape &shape, int64_t without = -1) : shape_(shape) {
    TcpListener listener = listenHere();
    at_ = listener.address;
    hosts_.resize(static_cast<size_t>(shape.hosts));
    clients_.resize(static_cast<size_t>(shape.ranks()));
    hosts_[0] = JobHost::zero(shape, std::move(listener));
    for (int64_t number = 1; number < shape.hosts; ++number)
      if (number != without)
        addHost(number);
    for (int64_t rank = 0; rank < shape.ranks(); ++rank)
      if (rank / shape.perHost != without)
        addRank(rank);
  }
  ~JobOfHosts() { clients_.clear(); }

  void addHost(int64_t number) {
    auto host = JobHost::other(shape_, number, at_);
    ASSERT_TRUE(host.isOk()) << host.status().message();
    hosts_[static_cast<size_t>(number)] = std::move(*host);
  }
  void addRank(int64_t rank) {
    clients_[static_cast<size_t>(rank)] = host(rank / shape_.perHost).join(rank);
  }
  const JobShape &shape() const { return shape_; }
  const TcpAddress &at() const { return at_; }
  JobHost &host(int64_t number) { return *hosts_[static_cast<size_t>(number)]; }
  JobMemory &memory(int64_t number) { return host(number).memory(); }
  Client &client(int64_t rank) { return *clients_[static_cast<size_t>(rank)]->operator->(); }
  void endHost(int64_t number) { hosts_[static_cast<size_t>(number)].reset(); }
  void endRank(int64_t rank) { clients_[static_cast<size_t>(rank)].reset(); }
  void endRanksOf(int64_t host) {
    for (int64_t rank = host * shape_.perHost; rank < (host + 1) * shape_.perHost; ++rank)
      endRank(rank);
  }
  /// Runs `body(rank, client)` for each rank that is there, each on a thread of its own.
  template <class Body> void onRanks(Body body) {
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < shape_.ranks(); ++rank)
      if (clients_[static_cast<size_t>(rank)])
        threads.emplace_back([&, rank] { body(rank, client(rank)); });
    for (std::thread &thread : threads)
      thread.join();
  }
  /// All that are there have the same one in the end; its text.
  std::string commonCause() {
    std::string text;
    for (const auto &host : hosts_) {
      if (!host)
        continue;
      EXPECT_TRUE(eventually([&] { return host->memory().isAborted(); }));
      if (!host->memory().isAborted())
        continue;
      const std::string its = host->memory().cause()->status.message();
      EXPECT_TRUE(text.empty() || text == its) << text << "\n" << its;
      text = its;
    }
    return text;
  }

private:
  const JobShape shape_;
  TcpAddress at_;
  std::vector<std::unique_ptr<JobHost>> hosts_;
  std::vector<std::unique_ptr<WatchedClient>> clients_;
};

/// Host 1 or another one, by hand.
inline HostLink joinByHand(const TcpAddress &at, const JobShape &shape, int64_t number) {
  auto joined = joinHostZero(at, JobHost::optionsOf(shape, number), soon());
  EXPECT_TRUE(joined.isOk()) << joined.status().message();
  return std::move(joined->link);
}

/// The first frame of that kind, or nothing at the end of the connection.
inline std::optional<Frame> awaitFrame(HostLink &link, FrameKind kind) {
  std::optional<Frame> found;
  eventually([&] {
    std::vector<Frame> frames;
    link.flush();
    const Status status = link.receive(frames);
    for (Frame &frame : frames)
      if (frame.kind == kind && !found)
        found = std::move(frame);
    return found || !status.isOk();
  });
  return found;
}

/// Host 1, and host 0 by hand.
class ZeroByHand {
public:
  /// Says `words` in one piece with its welcome.
  explicit ZeroByHand(const JobShape &shape, const std::vector<Frame> &words = {})
      : acceptor_(listenHere(), kJobSecret, kJobContext) {
    std::thread comes([&] {
      auto joined = JobHost::other(shape, 1, acceptor_.address());
      ASSERT_TRUE(joined.isOk()) << joined.status().message();
      host = std::move(*joined);
    });
    std::string text = encode({.kind = FrameKind::HostWelcome});
    for (const Frame &frame : words)
      text += encode(frame);
    welcome(text);
    comes.join();
  }

private:
  void welcome(const std::string &text) {
    std::vector<Acceptor::AuthenticatedPeer> authenticated;
    char hello[1000];
    EXPECT_TRUE(eventually([&] {
      std::vector<pollfd> events;
      acceptor_.addDescriptors(events);
      poll(events.data(), events.size(), 10);
      if (authenticated.empty())
        authenticated = acceptor_.serve(events);
      if (authenticated.empty())
        return false;
      const auto count = authenticated.front().stream.read(hello);
      return count.isOk() && *count != 0 && authenticated.front().stream.write(text).isOk();
    }));
    link.emplace(std::move(authenticated.front().stream));
  }
  Acceptor acceptor_;

public:
  std::optional<HostLink> link;
  std::unique_ptr<JobHost> host;
};

/// Of memory, that this process has.
inline size_t residentBytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace braid
