//===- tests/network/hosts_test.cpp - jobs of several hosts -----------------------------------===//

#include "tests/network/hosts_test.h"
#include "runtime/job/network/byte_stream.h"
#include "runtime/job/process_group.h"

#include <gmock/gmock.h>

#include <random>

namespace braid {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// What a rank says in a round: of any size, and like nothing else.
std::string partOf(int64_t rank, int round) {
  std::mt19937 dice(static_cast<unsigned>(1000 * round + rank));
  const size_t most = size_t(1) << (dice() % 23);
  std::string text(dice() % most, '\0');
  for (size_t i = 0; i < text.size(); i += 61)
    text[i] = static_cast<char>(dice());
  return text + std::to_string(rank) + " in " + std::to_string(round);
}

TEST(Hosts, AllRanksHearEachOther) {
  JobOfHosts job({.hosts = 3, .perHost = 2});
  constexpr int kRounds = 25;
  job.onRanks([&](int64_t rank, Client &client) {
    for (int round = 0; round < kRounds; ++round) {
      const auto parts = client.allGather(partOf(rank, round));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      ASSERT_EQ(parts->size(), 6u);
      for (int64_t peer = 0; peer < 6; ++peer)
        ASSERT_TRUE((*parts)[static_cast<size_t>(peer)] == partOf(peer, round)) << peer << round;
    }
  });
}

TEST(Hosts, SeveralMegabytesOfEachRankAndNothingOfOthers) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  job.onRanks([&](int64_t rank, Client &client) {
    const std::string mine = rank % 2 ? std::string(6000000, static_cast<char>('0' + rank)) : "";
    for (int round = 0; round < 3; ++round) {
      const auto parts = client.allGather(mine);
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      ASSERT_TRUE((*parts)[static_cast<size_t>(rank)] == mine);
      ASSERT_EQ((*parts)[3], std::string(6000000, '3'));
      ASSERT_EQ((*parts)[0], "");
    }
  });
}

TEST(Hosts, ThereMayBeMany) {
  JobOfHosts job({.hosts = 40, .perHost = 2});
  job.onRanks([&](int64_t rank, Client &client) {
    for (uint32_t step = 1; step <= 5; ++step) {
      const auto parts = client.allGather(std::to_string(rank));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      ASSERT_EQ((*parts)[79], "79");
      ASSERT_TRUE(client.meetAtCommit(step).isOk());
    }
  });
  job.client(57).memory().abort({Status(StatusCode::PeerFailed, "enough"), 57});
  EXPECT_EQ(job.commonCause(), "enough");
}

TEST(Hosts, AStepCountsOnAllOfThem) {
  JobOfHosts job({.hosts = 3, .perHost = 1});
  job.onRanks([&](int64_t rank, Client &client) {
    for (uint32_t step = 1; step <= 20; ++step) {
      const Status met = client.meetAtCommit(step);
      ASSERT_TRUE(met.isOk()) << met.message();
      ASSERT_EQ(client.memory().committed(), step) << rank;
    }
  });
  for (int64_t host = 0; host < 3; ++host)
    EXPECT_FALSE(job.memory(host).isAborted());
}

TEST(Hosts, TheyEndWithoutAFailure) {
  for (const int64_t first : {0, 1}) {
    JobOfHosts job({.hosts = 2, .perHost = 2});
    job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.meetAtCommit(1).isOk()); });
    job.endRanksOf(first);
    job.endHost(first);
    std::this_thread::sleep_for(150ms);
    JobMemory &other = job.memory(1 - first);
    EXPECT_FALSE(other.isAborted()) << other.cause()->status.message();
    EXPECT_EQ(other.committed(), 1u);
  }
}

// -- Aborts. --

TEST(Hosts, AnyRanksAbortIsThatOfAllHosts) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    JobOfHosts job({.hosts = 3, .perHost = 1});
    job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.allGather("x").isOk()); });
    const std::string text = "rank " + std::to_string(rank) + " broke";
    Client &client = job.client(rank);
    EXPECT_TRUE(client.memory().abort({Status(StatusCode::WrongResult, text), rank}));
    client.memory().awaitDecision();
    EXPECT_TRUE(client.memory().isAborted());
    EXPECT_EQ(job.commonCause(), text);
    for (int64_t host = 0; host < 3; ++host) {
      EXPECT_EQ(job.memory(host).cause()->rank, rank);
      EXPECT_EQ(job.memory(host).cause()->status.code(), StatusCode::WrongResult);
    }
  }
}

/// Those who wait for others hear of it.
TEST(Hosts, AnAbortEndsTheWaitsOfAllHosts) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  job.onRanks([&](int64_t rank, Client &client) {
    if (rank == 3) {
      std::this_thread::sleep_for(50ms);
      client.memory().abort({Status(StatusCode::PeerFailed, "rank 3 gives up"), rank});
      return;
    }
    const auto parts = client.allGather("x");
    ASSERT_FALSE(parts.isOk());
    EXPECT_EQ(parts.status().message(), "rank 3 gives up");
  });
}

/// Host 0 does not decide what the device's failure proposes, and the watchdog does not wait for
/// that.
TEST(Hosts, AWatchdogProposesAndGoesOn) {
  ZeroByHand zero({.hosts = 2, .perHost = 1});
  JobMemory &memory = zero.host->memory();
  auto client = Client::join(zero.host->path(), {.job = "job", .rank = 1, .ranks = 2}, soon());
  ASSERT_TRUE(client) << client.status().message();
  ProcessGroup group(std::move(*client), 30s);
  std::atomic<int> asked{0};
  group.setProbe([&] {
    asked += memory.proposal().has_value();
    return Status(StatusCode::PeerFailed, "the device is lost");
  });
  ASSERT_TRUE(group.start().isOk());
  EXPECT_TRUE(eventually([&] { return asked > 0; })) << "it waits for the decision";
  zero.link.reset(); // now host 1 decides
  EXPECT_TRUE(eventually([&] { return group.isAborted(); }));
  EXPECT_EQ(group.failure().message(), "the device is lost");
  group.close();
}

TEST(Hosts, OfAbortsAtOnceOneIsTheFirst) {
  for (int round = 0; round < 5; ++round) {
    JobOfHosts job({.hosts = 3, .perHost = 2});
    job.onRanks([&](int64_t rank, Client &client) {
      client.memory().abort({Status(StatusCode::PeerFailed, std::to_string(rank)), rank});
      client.memory().awaitDecision();
      EXPECT_TRUE(client.memory().isAborted());
    });
    EXPECT_NE(job.commonCause(), "");
  }
}

/// Whichever is first: it is so everywhere.
TEST(Hosts, AStepCountsEverywhereOrNowhere) {
  int committed = 0;
  for (int round = 0; round < 30; ++round) {
    JobOfHosts job({.hosts = 3, .perHost = 1});
    std::atomic<int> succeeded{0};
    job.onRanks([&](int64_t rank, Client &client) {
      if (rank == round % 3) {
        std::thread aborts([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
          client.memory().abort({Status(StatusCode::PeerFailed, "too late?"), rank});
        });
        succeeded += client.meetAtCommit(1).isOk() || client.memory().committed() == 1;
        aborts.join();
      } else {
        succeeded += client.meetAtCommit(1).isOk() || client.memory().committed() == 1;
      }
      client.memory().awaitDecision();
    });
    EXPECT_EQ(job.commonCause(), "too late?");
    for (int64_t host = 0; host < 3; ++host)
      EXPECT_EQ(job.memory(host).committed(), job.memory(0).committed());
    EXPECT_EQ(succeeded, job.memory(0).committed() ? 3 : 0);
    committed += job.memory(0).committed() != 0;
  }
  RecordProperty("committed", committed);
}

// -- Deaths. --

TEST(Hosts, ADeadRankIsHeardOfOnAllHosts) {
  for (const int64_t rank : {0, 3}) {
    JobOfHosts job({.hosts = 2, .perHost = 2});
    job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.allGather("x").isOk()); });
    shutdown(job.client(rank).connection().descriptor(), SHUT_RDWR);
    EXPECT_EQ(job.commonCause(), "rank " + std::to_string(rank) + " closed its connection");
  }
}

TEST(Hosts, ARankThatLeavesInTheMiddleEndsTheJob) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.allGather("x").isOk()); });
  job.client(3).disconnect();
  job.onRanks([&](int64_t rank, Client &client) {
    EXPECT_TRUE(rank == 3 || !client.allGather("x").isOk());
  });
  EXPECT_EQ(job.commonCause(), "rank 3 left before the others were done");
}

/// Before it has brought what its ranks say, and after.
TEST(Hosts, AHostThatGoesInTheMiddleEndsTheJob) {
  for (const int64_t gone : {0, 1})
    for (const bool hasBrought : {false, true}) {
      SCOPED_TRACE(std::to_string(gone) + (hasBrought ? " after" : " before"));
      JobOfHosts job({.hosts = 3, .perHost = 1});
      job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.allGather("x").isOk()); });
      job.onRanks([&](int64_t rank, Client &client) {
        if (rank == gone) {
          std::this_thread::sleep_for(50ms);
          job.endHost(gone);
        } else if (rank != 2 || !hasBrought) {
          EXPECT_FALSE(client.meetAtCommit(1).isOk());
        } else {
          std::this_thread::sleep_for(300ms);
          EXPECT_FALSE(client.meetAtCommit(1).isOk());
        }
      });
      EXPECT_THAT(job.commonCause(),
                  HasSubstr(gone == 0 ? "rank 0 left before the others were done"
                                      : "host 1 (rank 1) left before the others were done"));
      for (int64_t host = 0; host < 3; ++host)
        EXPECT_TRUE(host == gone || job.memory(host).committed() == 0);
    }
}

/// Its ranks do not hear that the step counts: so it must not.
TEST(Hosts, WhatAHostHasBroughtGoesWithIt) {
  JobOfHosts job({.hosts = 2, .perHost = 1});
  std::thread early([&] { EXPECT_FALSE(job.client(1).meetAtCommit(1).isOk()); });
  std::this_thread::sleep_for(100ms);
  job.endHost(1);
  early.join();
  EXPECT_FALSE(job.client(0).meetAtCommit(1).isOk());
  EXPECT_EQ(job.memory(0).committed(), 0u);
  EXPECT_THAT(job.commonCause(), HasSubstr("host 1 (rank 1) left before"));
}

/// Nothing is said at its end: as if its process was killed.
TEST(Hosts, AHostWhoseConnectionEndsIsDead) {
  const JobShape shape{.hosts = 2, .perHost = 2};
  JobOfHosts job(shape, 1);
  { const HostLink gone = joinByHand(job.at(), shape, 1); }
  EXPECT_EQ(job.commonCause(),
            "rank 2, which hosted the meeting of host 1 (ranks 2 to 3), is gone");
  EXPECT_EQ(job.memory(0).slot(3).state, static_cast<uint32_t>(RankState::Dead));
}

// -- Meeting. --

TEST(Hosts, WhoNeverComesIsNamed) {
  JobOfHosts job({.hosts = 3, .perHost = 2, .join = 400ms}, 2);
  EXPECT_EQ(job.commonCause(),
            "expected 3 hosts to come within 0.4 s, got all but host 2 (ranks 4 to 5)");
  EXPECT_EQ(job.memory(1).cause()->status.code(), StatusCode::TimedOut);
  // Who comes after all hears why, at once.
  const auto start = std::chrono::steady_clock::now();
  const auto late = JobHost::other(job.shape(), 2, job.at());
  ASSERT_FALSE(late.isOk());
  EXPECT_EQ(late.status().code(), StatusCode::TimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_THAT(late.status().message(), HasSubstr("got all but host 2"));
}

TEST(Hosts, ASecondHostOfOneNumberEndsTheJob) {
  JobOfHosts job({.hosts = 3, .perHost = 2}, 2);
  const auto second = JobHost::other(job.shape(), 1, job.at());
  ASSERT_FALSE(second.isOk());
  EXPECT_EQ(second.status().code(), StatusCode::BadInput);
  EXPECT_EQ(second.status().message(),
            "two processes speak for host 1 (ranks 2 to 3); expected each rank once");
  EXPECT_EQ(job.commonCause(), second.status().message());
}

TEST(Hosts, HostsAgreeOnTheirNumbers) {
  for (const JobShape &other : {JobShape{.hosts = 2, .perHost = 3}, JobShape{.hosts = 4}}) {
    JobOfHosts job({.hosts = 2, .perHost = 2}, 1);
    const auto refused = JobHost::other(other, 1, job.at());
    ASSERT_FALSE(refused.isOk());
    EXPECT_THAT(refused.status().message(), StartsWith("host 1 says that there are"));
    EXPECT_THAT(refused.status().message(), HasSubstr("host 0 says 2 and 4"));
    EXPECT_EQ(job.commonCause(), refused.status().message());
  }
}

TEST(Hosts, AHostHasANumberOfTheJob) {
  for (const int64_t number : {0, 2, 70000}) {
    JobOfHosts job({.hosts = 2, .perHost = 1}, 1);
    auto options = JobHost::optionsOf(job.shape(), number);
    const auto refused = joinHostZero(job.at(), options, soon());
    ASSERT_FALSE(refused.isOk());
    EXPECT_THAT(refused.status().message(), HasSubstr("expected a host from 1 to 1, got host"));
  }
}

/// The last attempt may be cut off anywhere, and its reason is the deadline alone.
TEST(Hosts, WhatAnAttemptWithTimeEndedWithIsWhatIsSaid) {
  JobOfHosts job({.hosts = 2, .perHost = 1}, 1);
  auto options = JobHost::optionsOf(job.shape(), 1);
  options.secret = "something else, of some bytes";
  for (const auto time : {150ms, 200ms, 202ms, 205ms, 210ms, 250ms}) {
    const auto refused = joinHostZero(job.at(), options, deadlineIn(time));
    EXPECT_THAT(refused.status().message(), HasSubstr("in, got: ")) << time.count();
    EXPECT_THAT(refused.status().message(), Not(HasSubstr(" in time"))) << time.count();
  }
}

/// It cannot tell whose fault it is.
TEST(Hosts, WithAnotherSecretNobodyGetsIn) {
  JobOfHosts job({.hosts = 2, .perHost = 1}, 1);
  auto options = JobHost::optionsOf(job.shape(), 1);
  options.secret = "something else, of some bytes";
  const auto refused = joinHostZero(job.at(), options, deadlineIn(500ms));
  ASSERT_FALSE(refused.isOk());
  EXPECT_EQ(refused.status().code(), StatusCode::TimedOut);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("to let host 1 (rank 1) in, got: "),
                    HasSubstr("may know another secret, or name of the job")));
  EXPECT_FALSE(job.memory(0).isAborted());
  job.addHost(1);
  job.addRank(1);
  job.onRanks([&](int64_t, Client &client) { EXPECT_TRUE(client.allGather("x").isOk()); });
}

TEST(Hosts, ARankOfAnotherHostIsRefused) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  const auto refused =
      Client::join(job.host(1).path(), {.job = "job", .rank = 1, .ranks = 4}, soon());
  ASSERT_FALSE(refused.isOk());
  EXPECT_THAT(refused.status().message(), HasSubstr("one of the ranks 2 to 3"));
  job.onRanks([&](int64_t, Client &client) { EXPECT_TRUE(client.allGather("x").isOk()); });
}

/// On that host and, once host 0 has decided, on all.
TEST(Hosts, ARankThatComesTwiceEndsTheJob) {
  for (const int64_t rank : {1, 3}) {
    JobOfHosts job({.hosts = 2, .perHost = 2});
    const auto twice =
        Client::join(job.host(rank / 2).path(), {.job = "job", .rank = rank, .ranks = 4}, soon());
    ASSERT_FALSE(twice.isOk());
    EXPECT_EQ(twice.status().code(), StatusCode::BadInput);
    EXPECT_EQ(twice.status().message(),
              "two processes are rank " + std::to_string(rank) +
                  " of job 'job'; expected each rank once, and a name of its own for each job (see "
                  "braid env)");
    EXPECT_EQ(job.commonCause(), twice.status().message());
  }
}

TEST(Hosts, TheAcceptorClosesWithTheFirstAllGather) {
  JobOfHosts job({.hosts = 2, .perHost = 1});
  EXPECT_TRUE(ByteStream::connect(job.at().host, job.at().port, "it", false, soon()).isOk());
  job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(client.allGather("x").isOk()); });
  EXPECT_FALSE(ByteStream::connect(job.at().host, job.at().port, "it", false, soon()).isOk());
}

// -- Silence, and clocks. --

TEST(Hosts, AHostThatSaysNothingIsLost) {
  const JobShape shape{.hosts = 2, .perHost = 2, .silence = 400ms};
  JobOfHosts job(shape, 1);
  HostLink silent = joinByHand(job.at(), shape, 1);
  const std::string cause = job.commonCause();
  EXPECT_THAT(cause, HasSubstr("host 1 (ranks 2 to 3): nothing was heard from it for 0.4 s"));
  EXPECT_THAT(cause, HasSubstr("rank 2 stands still"));
  EXPECT_EQ(job.memory(0).cause()->status.code(), StatusCode::TimedOut);
  // If it goes on, it hears why.
  const std::optional<Frame> told = awaitFrame(silent, FrameKind::HostAbort);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(decodeCause(told->body, 4)->status.message(), cause);
}

TEST(Hosts, AHost0ThatSaysNothingIsGivenUp) {
  ZeroByHand job({.hosts = 2, .perHost = 1, .silence = 400ms});
  JobMemory &memory = job.host->memory();
  ASSERT_TRUE(eventually([&] { return memory.isAborted(); }));
  EXPECT_THAT(memory.cause()->status.message(),
              AllOf(HasSubstr("host 0: nothing was heard from it for 0.4 s"),
                    HasSubstr("rank 0 stands still")));
  EXPECT_EQ(memory.cause()->status.code(), StatusCode::TimedOut);
  EXPECT_TRUE(memory.abort({Status(StatusCode::PeerFailed, "late"), 1}) == false);
  EXPECT_TRUE(awaitFrame(*job.link, FrameKind::HostAbort).has_value());
}

TEST(Hosts, ClocksDifferByNoMoreThanTheirError) {
  JobOfHosts job({.hosts = 3, .perHost = 1});
  for (int64_t host = 1; host < 3; ++host) {
    ASSERT_TRUE(eventually([&] { return job.memory(host).network().clockErrorNs != 0; }));
    std::this_thread::sleep_for(300ms);
    const JobMemory::Network network = job.memory(host).network();
    EXPECT_LE(static_cast<uint64_t>(std::abs(network.clockOffsetNs)), network.clockErrorNs);
    EXPECT_LT(network.clockErrorNs, 1000000000u);
  }
  EXPECT_EQ(job.memory(0).network().clockOffsetNs, 0);
}

TEST(Hosts, AnotherClockIsFoundOut) {
  constexpr int64_t kAhead = -3600000000000; // behind, in fact
  ZeroByHand job({.hosts = 2, .perHost = 1});
  JobMemory &memory = job.host->memory();
  for (int i = 0; i < 3; ++i) {
    const auto ping = awaitFrame(*job.link, FrameKind::HostPing);
    ASSERT_TRUE(ping.has_value());
    const auto sent = HostPing::decode(ping->body);
    ASSERT_TRUE(sent.isOk());
    job.link->send(
        {.kind = FrameKind::HostPong,
         .body = HostPing{sent->sentNs, monotonicNs() + static_cast<uint64_t>(kAhead)}.encode()});
    // An answer to nothing changes nothing.
    job.link->send({.kind = FrameKind::HostPong, .body = HostPing{1, 2}.encode()});
  }
  ASSERT_TRUE(eventually([&] { return memory.network().clockErrorNs != 0; }));
  const JobMemory::Network network = memory.network();
  EXPECT_LE(static_cast<uint64_t>(std::abs(network.clockOffsetNs - kAhead)), network.clockErrorNs);
  // Times of ranks come in this host's clock, and go in that of host 0.
  auto made = JobMemory::create(2);
  ASSERT_TRUE(made.isOk());
  made->slot(0).heartbeatNs = 5000000000;
  Frame slots{.kind = FrameKind::HostSlots};
  appendSlots(*made, 0, 1, 0, slots.body);
  job.link->send(slots);
  EXPECT_TRUE(eventually([&] { return memory.slot(0).heartbeatNs != 0; }));
  EXPECT_EQ(memory.slot(0).heartbeatNs,
            5000000000 - static_cast<uint64_t>(memory.network().clockOffsetNs));
  memory.slot(1).heartbeatNs = 7000;
  EXPECT_TRUE(eventually([&] {
    const auto theirs = awaitFrame(*job.link, FrameKind::HostSlots);
    return theirs && applySlots(theirs->body, *made, 0, [](int64_t) { return true; }).isOk() &&
           made->slot(1).heartbeatNs != 0;
  }));
  EXPECT_EQ(made->slot(1).heartbeatNs,
            7000 + static_cast<uint64_t>(memory.network().clockOffsetNs));
}

TEST(Hosts, EachSeesWhereTheRanksOfOthersAre) {
  JobOfHosts job({.hosts = 3, .perHost = 1});
  for (int64_t rank = 0; rank < 3; ++rank) {
    RankSlot &slot = job.memory(rank).slot(rank);
    slot.queues = 2;
    slot.queue[1].completed = static_cast<uint64_t>(1000 + rank);
    slot.closed = 1;
  }
  for (int64_t host = 0; host < 3; ++host)
    for (int64_t rank = 0; rank < 3; ++rank) {
      const RankSlot &slot = job.memory(host).slot(rank);
      EXPECT_TRUE(eventually([&] {
        return slot.queue[1].completed == static_cast<uint64_t>(1000 + rank) && slot.closed == 1 &&
               slot.state == static_cast<uint32_t>(RankState::Joined);
      })) << host
          << " " << rank;
      EXPECT_EQ(slot.pid != 0, host == rank);
    }
  job.endRanksOf(2);
  job.endHost(2);
  for (int64_t host = 0; host < 2; ++host)
    EXPECT_TRUE(eventually(
        [&] { return job.memory(host).slot(2).state == static_cast<uint32_t>(RankState::Left); }));
  EXPECT_FALSE(job.memory(0).isAborted());
}

// -- First and last words. --

/// In one piece with the welcome, so that they are there before anybody is there to hear them.
TEST(Hosts, WhatComesWithTheWelcomeIsHeard) {
  const JobCause cause{Status(StatusCode::BadInput, "not like this"), 0};
  const ZeroByHand job({.hosts = 2, .perHost = 1},
                       {{.kind = FrameKind::HostAbort, .body = encodeCause(cause)},
                        {.kind = FrameKind::Disconnect}});
  ASSERT_TRUE(eventually([&] { return job.host->memory().isAborted(); }));
  EXPECT_EQ(job.host->memory().cause()->status.message(), "not like this");
}

/// Also if it comes with the hello, though no host of this version says so much at once.
TEST(Hosts, WhatComesWithTheHelloIsHeard) {
  const JobShape shape{.hosts = 2, .perHost = 1};
  JobOfHosts job(shape, 1);
  auto knocked =
      connectAuthenticated(job.at(), "host 0", kJobSecret, kJobContext, 1, soon(), soon());
  ASSERT_TRUE(knocked.isOk()) << knocked.status().message();
  const JobCause cause{Status(StatusCode::BadInput, "not like this"), 1};
  const std::string words =
      encode({.kind = FrameKind::HostHello, .body = HostHello{2, 2}.encode()}) +
      encode({.kind = FrameKind::HostAbort, .body = encodeCause(cause)});
  ASSERT_EQ(*knocked->write(words), words.size());
  EXPECT_EQ(job.commonCause(), "not like this");
}

/// What is still under way when host 0 ends, beside words that it never reads.
TEST(Hosts, WhatWasCommittedArrivesThoughHost0Ends) {
  const JobShape shape{.hosts = 2, .perHost = 1};
  JobOfHosts job(shape, 1);
  HostLink link = joinByHand(job.at(), shape, 1);
  link.send(encodeGathered(FrameKind::HostGather, {.sequence = 1, .step = 0, .parts = {"x"}}));
  ASSERT_TRUE(job.client(0).allGather(std::string(8 << 20, 'y')).isOk());
  std::thread ends([&] {
    job.endRank(0);
    job.endHost(0);
  });
  for (int i = 0; i < 20; ++i) {
    link.send({.kind = FrameKind::HostPing, .body = HostPing{1, 1}.encode()});
    std::this_thread::sleep_for(10ms);
  }
  std::vector<Frame> frames;
  eventually([&] { return !link.receive(frames).isOk(); });
  ends.join();
  auto has = [&](FrameKind kind) {
    return std::any_of(frames.begin(), frames.end(),
                       [&](const Frame &frame) { return frame.kind == kind; });
  };
  EXPECT_TRUE(has(FrameKind::HostGathered));
  EXPECT_TRUE(has(FrameKind::Disconnect));
}

/// Who never reads keeps nobody for long.
TEST(Hosts, EndsThoughNobodyReads) {
  const JobShape shape{.hosts = 2, .perHost = 1};
  JobOfHosts job(shape, 1);
  HostLink link = joinByHand(job.at(), shape, 1);
  link.send(encodeGathered(FrameKind::HostGather, {.sequence = 1, .step = 0, .parts = {"x"}}));
  ASSERT_TRUE(job.client(0).allGather(std::string(32 << 20, 'y')).isOk());
  const auto start = std::chrono::steady_clock::now();
  job.endRank(0);
  job.endHost(0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  link.flush();
}

// -- Hosts that do not keep to the protocol. --

/// Host 1 says that, by hand, and is lost for this reason.
void expectLost(const std::vector<Frame> &frames, const std::string &why) {
  SCOPED_TRACE(why);
  const JobShape shape{.hosts = 2, .perHost = 2};
  JobOfHosts job(shape, 1);
  HostLink link = joinByHand(job.at(), shape, 1);
  for (const Frame &frame : frames)
    link.send(frame);
  EXPECT_THAT(job.commonCause(), AllOf(HasSubstr("host 1 (ranks 2 to 3)"), HasSubstr(why)));
}

Frame gatherOf(uint32_t sequence, std::vector<std::string> parts = {"c", "d"}) {
  return encodeGathered(FrameKind::HostGather,
                        {.sequence = sequence, .step = 1, .parts = std::move(parts)});
}

TEST(Hosts, WhoBreaksTheProtocolIsLost) {
  auto memory = JobMemory::create(4);
  ASSERT_TRUE(memory.isOk());
  std::string slotsOfRank1;
  appendSlots(*memory, 1, 1, 0, slotsOfRank1);
  expectLost({gatherOf(2)}, "expected parts of all-gather 1, got some of 2");
  expectLost({gatherOf(1), gatherOf(1)}, "expected parts of all-gather 1, got some of 1");
  expectLost({gatherOf(1), gatherOf(2)}, "expected parts of all-gather 1, got some of 2");
  expectLost({gatherOf(1, {"c"})}, "expected the parts of 2 ranks, got 1");
  expectLost({{.kind = FrameKind::HostGather, .sequence = 1, .body = "x"}}, "the end of it");
  expectLost({{.kind = FrameKind::HostSlots, .body = slotsOfRank1}}, "is not the other host's");
  expectLost({{.kind = FrameKind::HostSlots, .body = "x"}}, "the end of it");
  expectLost({{.kind = FrameKind::HostPing, .body = "x"}}, "the end of it");
  expectLost({{.kind = FrameKind::HostAbort, .body = "x"}}, "the end of it");
  for (const FrameKind kind : {FrameKind::Hello, FrameKind::Offer, FrameKind::HostHello,
                               FrameKind::HostWelcome, FrameKind::HostGathered})
    expectLost({{.kind = kind}}, "expected a message of a host, got kind");
  // Who has left says nothing more, and who waits for it hears so.
  const JobShape shape{.hosts = 2, .perHost = 2};
  JobOfHosts job(shape, 1);
  HostLink link = joinByHand(job.at(), shape, 1);
  link.send({.kind = FrameKind::Disconnect});
  link.send(gatherOf(1));
  job.onRanks([&](int64_t, Client &client) { EXPECT_FALSE(client.allGather("x").isOk()); });
  EXPECT_EQ(job.commonCause(), "host 1 (ranks 2 to 3) left before the others were done");
}

TEST(Hosts, Host0KeepsToTheProtocol) {
  auto memory = JobMemory::create(2);
  ASSERT_TRUE(memory.isOk());
  std::string slotsOfRank1;
  appendSlots(*memory, 1, 1, 0, slotsOfRank1);
  const Frame unasked =
      encodeGathered(FrameKind::HostGathered, {.sequence = 1, .step = 1, .parts = {"a", "b"}});
  for (const Frame &frame :
       {unasked, Frame{.kind = FrameKind::HostSlots, .body = slotsOfRank1},
        Frame{.kind = FrameKind::HostGather}, Frame{.kind = FrameKind::HostPong, .body = "x"}}) {
    ZeroByHand job({.hosts = 2, .perHost = 1});
    job.link->send(frame);
    job.link->send(unasked);
    ASSERT_TRUE(eventually([&] { return job.host->memory().isAborted(); }));
    EXPECT_THAT(job.host->memory().cause()->status.message(), StartsWith("host 0: "));
    EXPECT_EQ(job.host->memory().committed(), 0u);
  }
}

TEST(Hosts, OnlyAHelloLetsAHostIn) {
  JobOfHosts job({.hosts = 2, .perHost = 1}, 1);
  auto knocked =
      connectAuthenticated(job.at(), "host 0", kJobSecret, kJobContext, 1, soon(), soon());
  ASSERT_TRUE(knocked.isOk());
  HostLink link(std::move(*knocked));
  link.send({.kind = FrameKind::HostGather});
  EXPECT_THAT(job.commonCause(), HasSubstr("expected a host to say who it is"));
  const auto told = awaitFrame(link, FrameKind::HostAbort);
  EXPECT_TRUE(told.has_value());
}

/// False if the other side takes nothing for a while. Where nobody reads, TCP may drop what tells
/// that the other direction has room.
bool sendWithoutReading(HostLink &link, const Frame &frame) {
  link.send(frame);
  for (const Deadline giveUp = deadlineIn(1s); link.hasUnsent(); link.flush()) {
    if (std::chrono::steady_clock::now() >= giveUp)
      return false;
    std::this_thread::yield();
  }
  return true;
}

/// Nothing is kept for a host that asks and does not read.
TEST(Hosts, AHostThatOnlyAsksCostsNothing) {
  const JobShape shape{.hosts = 2, .perHost = 1};
  JobOfHosts job(shape, 1);
  HostLink link = joinByHand(job.at(), shape, 1);
  const Frame ping{.kind = FrameKind::HostPing, .body = HostPing{1, ~uint64_t(0)}.encode()};
  // What it takes to read many at once is there by then.
  constexpr int kBefore = 200000, kPings = 1500000;
  size_t before = residentBytes();
  int asked = 0;
  for (; asked < kPings && sendWithoutReading(link, ping); ++asked)
    if (asked == kBefore)
      before = residentBytes();
  RecordProperty("asked", asked);
  EXPECT_LT(residentBytes(), before + (size_t(16) << 20));
  // As long as it may be silent, and not for ever, as it says.
  EXPECT_TRUE(
      eventually([&] { return job.memory(0).network().roundTripNs == uint64_t(30) * 1000000000; }));
  EXPECT_FALSE(job.memory(0).isAborted());
}

/// The others are served as ever.
TEST(Hosts, AHostThatDoesNotReadHoldsNobodyUp) {
  const JobShape shape{.hosts = 3, .perHost = 1};
  JobOfHosts job(shape, 2);
  HostLink link = joinByHand(job.at(), shape, 2);
  job.onRanks([&](int64_t rank, Client &client) {
    for (uint32_t round = 1; round <= 10; ++round) {
      if (rank == 0)
        link.send(
            encodeGathered(FrameKind::HostGather, {.sequence = round, .step = 0, .parts = {"x"}}));
      const auto parts = client.allGather(std::string(2 << 20, 'y'));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
    }
  });
  std::vector<Frame> frames;
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(link.receive(frames).isOk());
    return std::count_if(frames.begin(), frames.end(), [](const Frame &frame) {
             return frame.kind == FrameKind::HostGathered;
           }) == 10;
  }));
}

} // namespace
} // namespace braid
