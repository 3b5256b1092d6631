//===- tests/network/unauthenticated_test.cpp - who does not belong to a job disturbs nothing -===//

#include "runtime/job/network/byte_stream.h"
#include "tests/network/hosts_test.h"

#include <gmock/gmock.h>

#include <deque>

#include <netinet/in.h>
#include <sys/resource.h>

namespace braid {
namespace {

constexpr JobShape kShape{.hosts = 3, .perHost = 1};

FileDescriptor newSocket() {
  return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Waits for it only as long as it takes where somebody accepts. False if nobody listens.
bool connectWith(const FileDescriptor &socket, const TcpAddress &at) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS)
    return false;
  pollfd entry{socket.get(), POLLOUT, 0};
  poll(&entry, 1, 20);
  return true;
}

/// Invalid if nobody listens.
FileDescriptor connectAt(const TcpAddress &at) {
  FileDescriptor socket = newSocket();
  if (!connectWith(socket, at))
    socket.reset();
  return socket;
}

/// What the other side has said so far.
std::string hear(const FileDescriptor &socket) {
  char bytes[1000];
  const ssize_t count = recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : "";
}

/// One who means no good, until it is destroyed.
class UnauthenticatedPeer {
public:
  static constexpr int kKinds = 9;
  /// `heard`: an answer that was good for another connection.
  UnauthenticatedPeer(int kind, const TcpAddress &at, const std::string &heard)
      : kind_(kind % kKinds), heard_(heard), socket_(connectAt(at)) {}
  bool isConnected() const { return socket_.isValid(); }
  bool wasAsked() const { return hasBegun_; }

  /// Goes on, now and then.
  void goOn() {
    if (!socket_.isValid())
      return;
    if (const std::string more = hear(socket_); asked_.empty())
      asked_ = more;
    if (asked_.size() == kChallengeBytes && !std::exchange(hasBegun_, true))
      begin();
    else if (kind_ == 6 && hasBegun_)
      say(llvm::StringRef(slowly_).substr(slow_++, 1));
  }

private:
  void begin() {
    switch (kind_) {
    case 0:
      return say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    case 1: // another secret
      return say(answer("another secret, of some bytes", kJobContext));
    case 2: // another job
      return say(answer(kJobSecret, "another job"));
    case 3:
      return say(heard_);
    case 4: // the beginning of an answer, and silence
      return say(answer(kJobSecret, kJobContext).substr(0, 50));
    case 5: // a message of 4 GB, without any proof
      return say(encode({.kind = FrameKind::HostHello}).substr(0, 12) + "\xff\xff\xff\xff");
    case 6: // byte by byte
      slowly_ = answer("another secret, of some bytes", kJobContext);
      return;
    case 7: // more than is ever wanted
      return say(std::string(1 << 16, 'x'));
    default: // no word
      return;
    }
  }
  std::string answer(const std::string &secret, const std::string &context) const {
    return ClientHandshake(secret, context, 1).answer(asked_);
  }
  void say(llvm::StringRef text) {
    (void)!send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  const int kind_;
  const std::string heard_;
  FileDescriptor socket_;
  std::string asked_, slowly_;
  size_t slow_ = 0;
  bool hasBegun_ = false;
};

/// Some hundred of them at a time.
class ManyPeers {
public:
  ManyPeers(const TcpAddress &at, size_t most) : at_(at), most_(most) {
    // A good answer, to a question that will not be asked again.
    ServerHandshake another(kJobSecret, kJobContext);
    heard_ = ClientHandshake(kJobSecret, kJobContext, 1).answer(another.challenge());
  }
  void addOne() {
    unauthenticated_.emplace_back(came_++, at_, heard_);
    if (unauthenticated_.size() > most_) {
      asked_ += unauthenticated_.front().wasAsked();
      unauthenticated_.pop_front();
    }
    // All have their turns, some at a time.
    for (size_t i = 0; i < 8 && i < unauthenticated_.size(); ++i)
      unauthenticated_[next_++ % unauthenticated_.size()].goOn();
  }
  int came() const { return came_; }
  int asked() const { return asked_; } ///< of those that have gone

private:
  const TcpAddress at_;
  const size_t most_;
  std::string heard_;
  std::deque<UnauthenticatedPeer> unauthenticated_;
  size_t next_ = 0;
  int came_ = 0, asked_ = 0;
};

/// As many descriptors as this process may have, for a while.
class ManyDescriptors {
public:
  ManyDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit most = before_;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    getrlimit(RLIMIT_NOFILE, &most);
    count_ = most.rlim_cur;
  }
  ~ManyDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  size_t count() const { return count_; }

private:
  rlimit before_{};
  size_t count_ = 0;
};

void runSteps(JobOfHosts &job) {
  job.onRanks([&](int64_t rank, Client &client) {
    for (uint32_t step = 1; step <= 20; ++step) {
      const auto parts = client.allGather(std::to_string(rank * step));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      ASSERT_EQ((*parts)[2], std::to_string(2 * step));
      const Status met = client.meetAtCommit(step);
      ASSERT_TRUE(met.isOk()) << met.message();
    }
  });
}

/// The hosts come in the midst of them.
TEST(UnauthenticatedPeers, TenThousandDoNoHarm) {
  constexpr int kPeers = 10000;
  const ManyDescriptors many;
  JobOfHosts job(kShape, 2);
  const size_t descriptors = countDescriptors();
  size_t resident = 0;
  {
    ManyPeers others(job.at(), std::min<size_t>(many.count() / 4, 3000));
    std::thread late;
    while (others.came() < kPeers) {
      others.addOne();
      if (others.came() == 1000)
        resident = residentBytes();
      if (others.came() == 9000)
        late = std::thread([&] {
          job.addHost(2);
          job.addRank(2);
        });
    }
    EXPECT_GT(others.asked(), kPeers / 2) << "most of them should have got to the acceptor";
    RecordProperty("asked", others.asked());
    EXPECT_LT(countDescriptors(), descriptors + 3001 + kMaxUnauthenticatedPeers + 50);
    // The others itself keeps some of it: its tables.
    EXPECT_LT(residentBytes(), resident + (size_t(8) << 20));
    late.join();
    runSteps(job);
    EXPECT_FALSE(ByteStream::connect(job.at().host, job.at().port, "it", false, soon()).isOk())
        << "the acceptor is closed";
  }
  EXPECT_LE(countDescriptors(), descriptors + 20);
  for (int64_t host = 0; host < 3; ++host)
    EXPECT_EQ(job.memory(host).committed(), 20u);
}

/// All kinds, each by itself, so that none hides behind the others.
TEST(UnauthenticatedPeers, NoKindDoesHarm) {
  for (int kind = 0; kind < UnauthenticatedPeer::kKinds; ++kind) {
    SCOPED_TRACE(kind);
    JobOfHosts job(kShape, 2);
    UnauthenticatedPeer peer(kind, job.at(), std::string(kHandshakeAnswerBytes, 'x'));
    for (int i = 0; i < 100; ++i) {
      peer.goOn();
      std::this_thread::sleep_for(100us);
    }
    EXPECT_FALSE(job.memory(0).isAborted());
    job.addHost(2);
    job.addRank(2);
    runSteps(job);
  }
}

// -- The acceptor by itself. --

/// Serves it until `isOver`.
template <class Over>
std::vector<Acceptor::AuthenticatedPeer> serveUntil(Acceptor &acceptor, Over isOver) {
  std::vector<Acceptor::AuthenticatedPeer> authenticated;
  eventually([&] {
    std::vector<pollfd> events;
    acceptor.addDescriptors(events);
    poll(events.data(), events.size(), 5);
    for (Acceptor::AuthenticatedPeer &peer : acceptor.serve(events))
      authenticated.push_back(std::move(peer));
    return isOver(authenticated);
  });
  return authenticated;
}

TEST(AcceptorTest, LetsInWhoKnowsTheSecretAndSaysItsNumber) {
  Acceptor acceptor(listenHere(), kJobSecret, kJobContext);
  std::optional<Result<SecureStream>> mine;
  std::thread knocks([&] {
    mine =
        connectAuthenticated(acceptor.address(), "it", kJobSecret, kJobContext, 77, soon(), soon());
  });
  auto authenticated = serveUntil(acceptor, [](const auto &all) { return !all.empty(); });
  knocks.join();
  ASSERT_EQ(authenticated.size(), 1u);
  EXPECT_EQ(authenticated[0].number, 77u);
  ASSERT_TRUE(mine->isOk());
  ASSERT_TRUE((*mine)->write("words").isOk());
  char place[10];
  EXPECT_TRUE(eventually([&] { return *authenticated[0].stream.read(place) == 5; }));
}

/// Between its proof and the answer, whoever knocks may have been let in.
TEST(AcceptorTest, WhoHasAnsweredWaitsForTheProof) {
  Acceptor acceptor(listenHere(), kJobSecret, kJobContext);
  std::optional<Result<SecureStream>> mine;
  std::thread knocks([&] {
    mine = connectAuthenticated(acceptor.address(), "it", kJobSecret, kJobContext, 77,
                                deadlineIn(300ms), soon());
  });
  // It is asked, and then nobody looks after it for longer than it waits for a question.
  serveUntil(acceptor, [&](const auto &) {
    std::vector<pollfd> events;
    acceptor.addDescriptors(events);
    return events.size() > 1;
  });
  std::this_thread::sleep_for(400ms);
  const auto authenticated = serveUntil(acceptor, [](const auto &all) { return !all.empty(); });
  knocks.join();
  ASSERT_EQ(authenticated.size(), 1u);
  EXPECT_TRUE(mine->isOk()) << mine->status().message();
}

TEST(AcceptorTest, SomebodyElseIsNobodysHost) {
  const TcpListener listener = listenHere();
  std::thread answers([&] {
    FileDescriptor socket;
    ASSERT_TRUE(eventually([&] { return (socket = acceptFrom(listener)).isValid(); }));
    ByteStream stream(std::move(socket), "who knocks");
    ASSERT_TRUE(stream.write(std::string(kChallengeBytes + kProofBytes, 'x'), soon()).isOk());
    (void)stream.read(kHandshakeAnswerBytes, soon());
  });
  const auto stream =
      connectAuthenticated(listener.address, "it", kJobSecret, kJobContext, 1, soon(), soon());
  answers.join();
  ASSERT_FALSE(stream.isOk());
  EXPECT_EQ(stream.status().code(), StatusCode::BadInput);
}

TEST(AcceptorTest, NobodyFindsAClosedAcceptor) {
  Acceptor acceptor(listenHere(), kJobSecret, kJobContext);
  const TcpAddress at = acceptor.address();
  acceptor.close();
  const auto stream = connectAuthenticated(at, "it", kJobSecret, kJobContext, 1, soon(), soon());
  ASSERT_FALSE(stream.isOk());
  EXPECT_EQ(stream.status().code(), StatusCode::PeerFailed);
  std::vector<pollfd> events;
  acceptor.addDescriptors(events);
  EXPECT_EQ(poll(events.data(), events.size(), 0), 0);
  EXPECT_TRUE(acceptor.serve(events).empty());
}

/// As a rendezvous may do it: what was asked for and what is served are some time apart.
TEST(AcceptorTest, CanBeClosedBetweenAskingAndServing) {
  Acceptor acceptor(listenHere(), kJobSecret, kJobContext);
  const FileDescriptor one = connectAt(acceptor.address());
  serveUntil(acceptor, [&](const auto &) {
    std::vector<pollfd> events;
    acceptor.addDescriptors(events);
    return events.size() == 2;
  });
  const FileDescriptor other = connectAt(acceptor.address());
  std::vector<pollfd> events;
  acceptor.addDescriptors(events);
  ASSERT_EQ(events.size(), 2u);
  for (pollfd &entry : events)
    entry.revents = POLLIN;
  acceptor.close();
  EXPECT_TRUE(acceptor.serve(events).empty());
}

/// How long the processor was busy in `body`, of this process.
template <class Body> double processorSeconds(Body body) {
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = now();
  body();
  return now() - before;
}

/// All descriptors that are left.
std::vector<FileDescriptor> takeAllDescriptors() {
  std::vector<FileDescriptor> taken;
  for (FileDescriptor one; (one = FileDescriptor::duplicate(0)).isValid();)
    taken.push_back(std::move(one));
  return taken;
}

/// A process without descriptors neither spins nor gives all that it has to peers.
TEST(AcceptorTest, RunsOutOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  TcpListener listener = listenHere();
  const TcpAddress at = listener.address;
  std::vector<FileDescriptor> early, late;
  for (int i = 0; i < 40; ++i) {
    early.push_back(connectAt(at));
    late.push_back(newSocket());
  }
  // All that are open now, and few more.
  constexpr size_t kMore = 24;
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(FileDescriptor::duplicate(0).get()) + kMore;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Acceptor acceptor(std::move(listener), kJobSecret, kJobContext);
  auto serveForASecond = [&] {
    return processorSeconds([&] {
      for (const Deadline end = deadlineIn(1s); std::chrono::steady_clock::now() < end;) {
        std::vector<pollfd> events;
        acceptor.addDescriptors(events);
        poll(events.data(), events.size(), 5);
        (void)acceptor.serve(events);
      }
    });
  };
  const double busy = serveForASecond();
  std::vector<FileDescriptor> others = takeAllDescriptors();
  const size_t left = others.size();
  for (const FileDescriptor &socket : late)
    connectWith(socket, at);
  const double busyWithNone = serveForASecond();
  others.clear();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GT(left, kMore / 4);
  EXPECT_LT(busy, 0.5);
  EXPECT_LT(busyWithNone, 0.5);
  late.clear();
  early.clear();
  std::thread knocks([&] {
    EXPECT_TRUE(connectAuthenticated(at, "it", kJobSecret, kJobContext, 7, soon(), soon()).isOk());
  });
  EXPECT_FALSE(serveUntil(acceptor, [](const auto &all) { return !all.empty(); }).empty());
  knocks.join();
}

} // namespace
} // namespace braid
