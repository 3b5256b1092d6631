//===- tests/bootstrap/rendezvous_test.cpp - ranks that meet, exchange, leave and die ---------===//

#include "tests/bootstrap/bootstrap_test.h"
#include "tests/bootstrap/raw_socket.h"

#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

FileDescriptor memoryOf(int64_t rank) {
  FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(memory.get(), &rank, sizeof rank, 0), static_cast<ssize_t>(sizeof rank));
  return memory;
}

int64_t rankIn(const FileDescriptor &memory) {
  int64_t rank = -1;
  return pread(memory.get(), &rank, sizeof rank, 0) == sizeof rank ? rank : -1;
}

RankState stateOf(const Host &host, int64_t rank) { return host.memory->slot(rank).state.load(); }

std::string refusalOf(const Host &host, const ClientHello &hello) {
  auto client = Client::join(host.name(), hello, soon());
  EXPECT_EQ(client.status().code(), StatusCode::BadInput);
  return client.status().message();
}

/// A rank in a child process, which ends when this object is destroyed.
class ChildRank {
public:
  template <class Body> explicit ChildRank(Body body) : pid_(fork()) {
    if (pid_ == 0) {
      body();
      _exit(0);
    }
  }
  ~ChildRank() { killNow(); }
  void killNow() {
    if (pid_ <= 0)
      return;
    kill(pid_, SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }
  /// Returns the status of waitpid(2).
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

private:
  pid_t pid_;
};

/// A child process that outlives its parent. It keeps the parent's descriptors open until this
/// object is destroyed, but for at most eight seconds.
class Heir {
public:
  Heir() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Heir() {
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Called by the process that will die.
  void begin() {
    if (fork() != 0)
      return;
    alarm(8);
    close(ends_[1]);
    char byte;
    (void)!read(ends_[0], &byte, 1);
    _exit(0);
  }

private:
  int ends_[2];
};

// -- Joining. --

TEST(Rendezvous, GathersInRankOrder) {
  Host host(4);
  onAllRanks(4, [&](int64_t rank) {
    auto client = joinAs(host.name(), rank, 4);
    ASSERT_TRUE(client);
    for (int step = 0; step < 100; ++step) {
      auto mine = [&](int64_t of) { return std::to_string(step) + ":" + std::to_string(of); };
      auto parts = allGather(*client, mine(rank));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      EXPECT_EQ(*parts, (std::vector{mine(0), mine(1), mine(2), mine(3)}));
    }
  });
  EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
  EXPECT_FALSE(host.memory->isAborted());
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(stateOf(host, rank), RankState::Left);
}

/// Completes the first all-gather of both ranks.
void agree(Client &first, Client &second) {
  std::thread other([&] { EXPECT_TRUE(allGather(second, "").isOk()); });
  EXPECT_TRUE(allGather(first, "").isOk());
  other.join();
}

TEST(Rendezvous, VanishesWhenAllHaveAgreed) {
  Host host(2);
  auto first = joinAs(host.name(), 0, 2), second = joinAs(host.name(), 1, 2);
  EXPECT_TRUE(connectRaw(host.name()).isValid());
  agree(*first, *second);
  EXPECT_TRUE(eventually([&] { return !connectRaw(host.name()).isValid(); }));
  EXPECT_EQ(second->memory().slot(0).pid, static_cast<uint32_t>(getpid()));
}

TEST(Rendezvous, PassesDescriptorsOn) {
  size_t before = countDescriptors();
  {
    Host host(3);
    onAllRanks(3, [&](int64_t rank) {
      auto client = joinAs(host.name(), rank, 3);
      ASSERT_TRUE(client);
      ASSERT_TRUE(client->offer("arena", memoryOf(rank).get()).isOk());
      ASSERT_TRUE(allGather(*client, "").isOk());
      for (int64_t other = 0; other < 3; ++other) {
        auto memory = client->want(other, "arena");
        ASSERT_TRUE(memory.isOk()) << memory.status().message();
        EXPECT_EQ(rankIn(*memory), other);
        EXPECT_EQ(fcntl(memory->get(), F_GETFD), FD_CLOEXEC);
      }
      auto nothing = client->want(1, "other");
      EXPECT_EQ(nothing.status().code(), StatusCode::BadInput);
      EXPECT_EQ(nothing.status().message(),
                "rank 1 has not shared a file descriptor named 'other'");
      ASSERT_TRUE(allGather(*client, "").isOk());
    });
    EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
    EXPECT_FALSE(host.memory->isAborted());
  }
  EXPECT_EQ(countDescriptors(), before);
}

/// A name refers to the latest offer.
TEST(Rendezvous, KeepsTheLatestOfferOfAName) {
  Host host(1);
  auto client = joinAs(host.name(), 0, 1);
  const size_t before = countDescriptors();
  for (int64_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(client->offer("arena", memoryOf(i).get()).isOk());
  EXPECT_EQ(rankIn(*client->want(0, "arena")), 999);
  EXPECT_LT(countDescriptors(), before + 4);
}

/// The host of a job that is found by name.
struct NamedHost {
  explicit NamedHost(const std::string &job, int64_t ranks)
      : memory(std::move(*JobMemory::create(ranks))),
        rendezvous(std::move(*Rendezvous::start(std::move(*listenForJob({job, 0, ranks}, soon())),
                                                memory, {.job = job}))) {}
  JobMemory memory;
  std::unique_ptr<Rendezvous> rendezvous;
};

TEST(Rendezvous, OfTwoJobsSeeNothingOfEachOther) {
  auto runJob = [](const std::string &job) {
    NamedHost host(job, 3);
    onAllRanks(3, [&](int64_t rank) {
      auto client = Client::find({job, rank, 3}, soon());
      ASSERT_TRUE(client.isOk()) << client.status().message();
      for (int step = 0; step < 20; ++step)
        EXPECT_EQ(*allGather(**client, job), std::vector<std::string>(3, job));
    });
    EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
    EXPECT_FALSE(host.memory.isAborted());
  };
  const std::string mark = std::to_string(getpid());
  std::thread one([&] { runJob("one" + mark); }), two([&] { runJob("two" + mark); });
  one.join();
  two.join();
}

/// A job replaces a failed job with the same name.
TEST(Rendezvous, IsFoundAlthoughAFailedJobHasItsName) {
  const std::string job = "again" + std::to_string(getpid());
  NamedHost failed(job, 2);
  auto old = Client::find({job, 0, 2}, soon());
  ASSERT_TRUE(old.isOk());
  failed.memory.abort({Status(StatusCode::TimedOut, "the cause"), -1});
  NamedHost next(job, 2);
  onAllRanks(2, [&](int64_t rank) {
    auto client = Client::find({job, rank, 2}, soon());
    ASSERT_TRUE(client.isOk()) << client.status().message();
    EXPECT_TRUE(allGather(**client, "").isOk());
  });
  EXPECT_EQ(failed.memory.cause()->status.message(), "the cause");
}

// -- Rejected peers. --

/// A peer that sends no valid hello is disconnected, and the job continues.
TEST(Rendezvous, DropsAnybodyElse) {
  const size_t before = countDescriptors();
  {
    Host host(2);
    const std::string good = ClientHello{.rank = 1, .ranks = 2}.encode();
    auto say = [&](const std::string &text, size_t descriptors = 0) {
      FileDescriptor peer = connectRaw(host.name());
      EXPECT_TRUE(text.empty() ||
                  sendRaw(peer.get(), text, std::vector(descriptors, STDERR_FILENO)));
      return peer;
    };
    std::thread first([&] { EXPECT_TRUE(allGather(*joinAs(host.name(), 0, 2), "").isOk()); });
    for (int i = 0; i < 20; ++i) {
      say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      say(std::string(100000, 'x'));
      say(good.substr(0, 1));
      say(ClientHello{.rank = 2, .ranks = 2}.encode());
      say(good, 1);
      say("Oarena", 1);
      say("");
    }
    const FileDescriptor silent = say("");
    EXPECT_TRUE(allGather(*joinAs(host.name(), 1, 2), "").isOk());
    first.join();
    EXPECT_FALSE(host.memory->isAborted());
  }
  EXPECT_EQ(countDescriptors(), before);
}

// -- Contradictory hellos. --

std::string twoAre(int64_t rank, const std::string &processes = "") {
  return "two processes claim to be rank " + std::to_string(rank) + " of job 'job'" + processes +
         "; start each rank once, and give each job its own name (see braid doctor)";
}

std::string processes(pid_t one, pid_t other) {
  return ": processes " + std::to_string(std::min(one, other)) + " and " +
         std::to_string(std::max(one, other));
}

/// Expects the client, the rejected rank and ranks that connect later to get the same cause.
void expectAllHear(Host &host, Client &client, const ClientHello &hello, const std::string &cause) {
  EXPECT_EQ(refusalOf(host, hello), cause);
  Status status = allGather(client, "").status();
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_EQ(status.message(), cause);
  EXPECT_EQ(refusalOf(host, {.job = "job", .rank = 1, .ranks = 3}), cause);
  EXPECT_EQ(refusalOf(host, {.job = "job", .rank = 4, .ranks = 5}), cause);
  auto late = joinAs(host.name(), 2, 3);
  EXPECT_EQ(allGather(*late, "").status().message(), cause);
  EXPECT_TRUE(host.rendezvous->isContradicted());
}

TEST(Rendezvous, ARankThatComesTwiceEndsTheJob) {
  Host host(3);
  auto client = joinAs(host.name(), 1, 3);
  expectAllHear(host, *client, {.job = "job", .rank = 1, .ranks = 3}, twoAre(1));
}

TEST(Rendezvous, AnotherNumberOfRanksEndsTheJob) {
  for (int64_t rank : {0, 3}) {
    Host host(3);
    auto client = joinAs(host.name(), 1, 3);
    expectAllHear(host, *client, {.job = "job", .rank = rank, .ranks = 4},
                  "rank " + std::to_string(rank) +
                      " reports that job 'job' has 4 ranks, but rank 0 reports 3");
  }
}

TEST(Rendezvous, NamesTheTwoProcesses) {
  Host host(2);
  ChildRank child([&] {
    auto client = Client::join(host.name(), {.job = "job", .rank = 1, .ranks = 2}, soon());
    pause();
  });
  ASSERT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Joined; }));
  EXPECT_EQ(refusalOf(host, {.job = "job", .rank = 1, .ranks = 2}),
            twoAre(1, processes(child.pid(), getpid())));
}

TEST(Rendezvous, KnowsItsOwnRankBeforeThatHasJoined) {
  Host host(2);
  host.memory->slot(0).pid = static_cast<uint32_t>(getpid());
  ChildRank child([&] {
    auto client = Client::join(host.name(), {.job = "job", .rank = 0, .ranks = 2}, soon());
    _exit(client ? 1 : static_cast<int>(client.status().code()));
  });
  const std::string cause = twoAre(0, processes(child.pid(), getpid()));
  EXPECT_EQ(WEXITSTATUS(child.wait()), static_cast<int>(StatusCode::BadInput));
  auto client = joinAs(host.name(), 0, 2);
  EXPECT_EQ(allGather(*client, "").status().message(), cause);
}

TEST(Rendezvous, ThatHasBegunIsNotDisturbed) {
  Host host(2);
  auto first = joinAs(host.name(), 0, 2), second = joinAs(host.name(), 1, 2);
  auto connection = Connection::connect(host.name(), soon());
  ASSERT_TRUE(connection.isOk());
  agree(*first, *second);
  // This may fail if the host has already disconnected.
  (void)connection->send(ClientHello{"job", 1, 2}.encode());
  EXPECT_EQ(connection->receive(soon()).status().code(), StatusCode::PeerFailed);
  agree(*first, *second);
  EXPECT_FALSE(host.memory->isAborted());
  EXPECT_FALSE(host.rendezvous->isContradicted());
}

TEST(Rendezvous, SaysWhoDidNotCome) {
  RendezvousOptions options = {.job = "job"};
  options.joinTimeout = 200ms;
  Host host(4, options);
  auto zero = joinAs(host.name(), 0, 4), one = joinAs(host.name(), 1, 4);
  Status status = allGather(*one, "").status();
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
  EXPECT_EQ(status.message(), "expected 4 ranks to join within 0.2 s, but ranks 2, 3 did not");
  EXPECT_EQ(allGather(*zero, "").status().message(), status.message());
  // A late rank gets the same error.
  auto late = joinAs(host.name(), 2, 4);
  EXPECT_EQ(allGather(*late, "").status().message(), status.message());
}

TEST(Client, SaysWhyItCannotJoin) {
  RendezvousPlace deaf = std::move(*listenAnywhere());
  auto status = Client::join(deaf.name, {}, deadlineIn(20ms)).status();
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
  EXPECT_EQ(status.message(), "joining as rank 0 at '@" + deaf.name + "', where process " +
                                  std::to_string(getpid()) +
                                  " is listening: no message arrived in time");
  deaf.listener.reset();
  EXPECT_EQ(Client::join(deaf.name, {}, soon()).status().code(), StatusCode::PeerFailed);
  status = Client::find({"nobody's", 1, 2}, deadlineIn(20ms)).status();
  EXPECT_EQ(status.code(), StatusCode::TimedOut);
}

// -- Deaths. --

TEST(Rendezvous, AbortsWhenARankIsKilledInAGather) {
  RendezvousOptions options = {.job = "job"};
  options.explainDeath = [](int64_t) { return "was killed by signal 9"; };
  options.describe = [](int64_t rank) { return "it is rank " + std::to_string(rank); };
  Host host(2, options);
  ChildRank child([&] {
    auto client = Client::join(host.name(), {.job = "job", .rank = 1, .ranks = 2}, soon());
    pause();
  });
  auto client = joinAs(host.name(), 0, 2);
  ASSERT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Joined; }));
  std::thread killer([&] { child.killNow(); });
  Status status = allGather(*client, "").status();
  killer.join();
  EXPECT_EQ(status.code(), StatusCode::PeerFailed);
  EXPECT_EQ(status.message(), "rank 1 was killed by signal 9\n  it is rank 1");
  EXPECT_EQ(host.memory->cause()->rank, 1);
  EXPECT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Dead; }));
}

TEST(Rendezvous, SeesADeathThoughAChildKeepsTheConnection) {
  Host host(2);
  Heir heir;
  ChildRank child([&] {
    auto client = Client::join(host.name(), {.job = "job", .rank = 1, .ranks = 2}, soon());
    heir.begin();
    raise(SIGKILL);
  });
  auto client = joinAs(host.name(), 0, 2);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(allGather(*client, "").status().message(), "rank 1 closed its connection");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(Rendezvous, LetsARankLeaveWhoseChildKeepsTheConnection) {
  Host host(2);
  Heir heir;
  ChildRank child([&] {
    auto client = Client::join(host.name(), {.job = "job", .rank = 1, .ranks = 2}, soon());
    heir.begin();
    (*client)->disconnect();
    _exit(0);
  });
  auto client = joinAs(host.name(), 0, 2);
  EXPECT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Left; }));
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(host.memory->isAborted()) << host.memory->cause()->status.message();
}

TEST(Client, SeesThatTheHostIsGoneThoughAChildKeepsTheConnection) {
  Heir heir;
  int names[2];
  ASSERT_EQ(pipe2(names, O_CLOEXEC), 0);
  ChildRank child([&] {
    Host host(2);
    (void)!write(names[1], host.name().c_str(), host.name().size() + 1);
    while (stateOf(host, 0) != RankState::Joined)
      std::this_thread::sleep_for(1ms);
    heir.begin();
    raise(SIGKILL);
  });
  char text[200] = {};
  ASSERT_GT(read(names[0], text, sizeof text - 1), 0);
  auto client = joinAs(text, 0, 2);
  EXPECT_TRUE(eventually([&] { return client->isHostGone(); }));
  EXPECT_EQ(allGather(*client, "").status().message(), "the launcher is gone");
  close(names[0]);
  close(names[1]);
}

/// Returns the error that rank 0 of two gets if rank 1 sends `text` after joining and then
/// disconnects.
std::string causeAfter(const std::string &text, const std::vector<int> &descriptors = {}) {
  Host host(2);
  auto client = joinAs(host.name(), 0, 2);
  {
    auto other = joinAs(host.name(), 1, 2);
    Connection connection = std::move(other->connection());
    EXPECT_TRUE(text.empty() || sendRaw(connection.descriptor(), text, descriptors));
    EXPECT_TRUE(text.empty() || eventually([&] { return host.memory->isAborted(); }));
    connection = Connection(FileDescriptor());
    EXPECT_TRUE(eventually([&] { return host.memory->isAborted(); }));
    EXPECT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Dead; }));
  }
  Status status = allGather(*client, "").status();
  EXPECT_EQ(status.code(), StatusCode::PeerFailed);
  EXPECT_EQ(host.memory->cause()->rank, 1);
  return status.message();
}

TEST(Rendezvous, EndsARankThatBreaksTheProtocol) {
  const std::string broke = "rank 1 violated the protocol: ";
  const std::string noOffer = broke + "it neither shared nor requested a file descriptor";
  EXPECT_EQ(causeAfter(""), "rank 1 closed its connection");
  EXPECT_EQ(causeAfter("rubbish"), noOffer);
  EXPECT_EQ(causeAfter("Oarena"), noOffer);
  const std::string tooMuch =
      broke + "received a message of more than 4096 bytes or with more than one descriptor";
  EXPECT_EQ(causeAfter("O" + std::string(5000, 'x'), {0}), tooMuch);
}

TEST(Rendezvous, EndsARankThatDoesNotReadItsAnswers) {
  Host host(1);
  auto client = joinAs(host.name(), 0, 1);
  // Sends requests until the host aborts the job.
  EXPECT_TRUE(eventually([&] {
    (void)client->connection().send("G0 x");
    return host.memory->isAborted();
  }));
  EXPECT_EQ(host.memory->cause()->status.message(),
            "rank 0 violated the protocol: cannot send: the receiver has too many unread messages");
}

TEST(Rendezvous, AbortsWhenARankLeavesBeforeTheOthersAreDone) {
  for (bool leavesFirst : {true, false}) {
    Host host(3);
    auto zero = joinAs(host.name(), 0, 3), one = joinAs(host.name(), 1, 3);
    auto two = joinAs(host.name(), 2, 3);
    auto leave = [&] {
      one->disconnect();
      EXPECT_TRUE(eventually([&] { return stateOf(host, 1) == RankState::Left; }));
    };
    Status status;
    if (leavesFirst)
      leave();
    std::thread gathers([&] { status = allGather(*zero, "").status(); });
    if (!leavesFirst) {
      std::this_thread::sleep_for(10ms); // by then, rank 0 has most likely joined the all-gather
      leave();
    }
    gathers.join();
    EXPECT_EQ(status.code(), StatusCode::PeerFailed);
    EXPECT_EQ(status.message(), "rank 1 left the job before the other ranks had finished");
    EXPECT_EQ(allGather(*two, "").status().message(), status.message());
    EXPECT_EQ(host.memory->cause()->rank, 1);
  }
}

TEST(Rendezvous, LetsRanksLeaveOneByOne) {
  Host host(3);
  {
    auto zero = joinAs(host.name(), 0, 3), one = joinAs(host.name(), 1, 3);
    auto two = joinAs(host.name(), 2, 3);
    two->disconnect();
    zero->disconnect();
    Status status = host.rendezvous->waitForAllToLeave(deadlineIn(20ms));
    EXPECT_EQ(status.code(), StatusCode::TimedOut);
    EXPECT_EQ(status.message(), "rank 1 did not leave the job in time");
  }
  EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
  EXPECT_FALSE(host.memory->isAborted());
}

TEST(Client, EndsItsWaitsWhenTheJobIsAborted) {
  Host host(2);
  auto zero = joinAs(host.name(), 0, 2), one = joinAs(host.name(), 1, 2);
  std::thread aborts([&] {
    std::this_thread::sleep_for(10ms);
    one->memory().abort({Status(StatusCode::TimedOut, "the cause"), 1});
  });
  EXPECT_EQ(allGather(*zero, "").status().message(), "the cause");
  aborts.join();
  EXPECT_EQ(zero->want(0, "x").status().message(), "the cause");
  EXPECT_EQ(zero->offer("x", 0).message(), "the cause");
}

} // namespace
} // namespace braid
