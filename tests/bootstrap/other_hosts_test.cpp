//===- tests/bootstrap/other_hosts_test.cpp - jobs of several hosts ---------------------------===//

#include "tests/bootstrap/hosts_in_process.h"

#include <gmock/gmock.h>

#include <random>

#include <sys/socket.h>

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Returns a rank's part of a round, which has a random size and differs from all other parts.
std::string partOf(int64_t rank, int round) {
  std::mt19937 dice(static_cast<unsigned>(1000 * round + rank));
  const size_t most = size_t(1) << (dice() % 19);
  std::string text(dice() % most, '\0');
  for (size_t i = 0; i < text.size(); i += 61)
    text[i] = static_cast<char>(dice());
  return text + std::to_string(rank) + " in " + std::to_string(round);
}

void meetOnce(JobOfHosts &job) {
  job.onRanks([](int64_t, Client &client) { ASSERT_TRUE(allGather(client, "x").isOk()); });
}

TEST(OtherHosts, AllRanksHearEachOther) {
  JobOfHosts job({.hosts = 3, .perHost = 2});
  constexpr int kRounds = 25;
  job.onRanks([&](int64_t rank, Client &client) {
    for (int round = 0; round < kRounds; ++round) {
      const auto parts = allGather(client, partOf(rank, round));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      ASSERT_EQ(parts->size(), 6u);
      for (int64_t peer = 0; peer < 6; ++peer)
        ASSERT_TRUE((*parts)[static_cast<size_t>(peer)] == partOf(peer, round)) << peer << round;
    }
  });
}

TEST(OtherHosts, MayBeMany) {
  JobOfHosts job({.hosts = 20, .perHost = 2});
  job.onRanks([&](int64_t rank, Client &client) {
    const auto parts = allGather(client, std::to_string(rank));
    ASSERT_TRUE(parts.isOk()) << parts.status().message();
    ASSERT_EQ((*parts)[39], "39");
    ASSERT_TRUE(meet(client, "", 1).isOk());
  });
  job.client(27).memory().abort({Status(StatusCode::PeerFailed, "enough"), 27});
  EXPECT_EQ(job.commonCause(), "enough");
}

TEST(OtherHosts, AreToldTooMuch) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  const std::string part(kMaxStoreValue / 2, 'x');
  job.onRanks([&](int64_t, Client &client) { EXPECT_FALSE(allGather(client, part).isOk()); });
  EXPECT_THAT(job.commonCause(),
              StartsWith("expected at most 4194304 bytes in total from the ranks"));
}

TEST(OtherHosts, CountAStepTogether) {
  JobOfHosts job({.hosts = 3, .perHost = 1});
  job.onRanks([&](int64_t rank, Client &client) {
    for (uint32_t step = 1; step <= 20; ++step) {
      const Status met = meet(client, "", step);
      ASSERT_TRUE(met.isOk()) << met.message();
      ASSERT_EQ(client.memory().committed(), step) << rank;
    }
  });
  for (int64_t host = 0; host < 3; ++host)
    EXPECT_FALSE(job.memory(host).isAborted());
}

TEST(OtherHosts, EndWithoutAFailure) {
  for (const int64_t first : {0, 1}) {
    JobOfHosts job({.hosts = 2, .perHost = 2});
    job.onRanks([&](int64_t, Client &client) { ASSERT_TRUE(meet(client, "", 1).isOk()); });
    job.endRanksOf(first);
    job.endHost(first);
    std::this_thread::sleep_for(150ms);
    JobMemory &other = job.memory(1 - first);
    EXPECT_FALSE(other.isAborted()) << other.cause()->status.message();
    EXPECT_EQ(other.committed(), 1u);
  }
}

/// A later job with the same name finds the values that the first one left in the store.
TEST(OtherHosts, MeetAgainInTheSameStore) {
  const auto shared = std::make_shared<SharedTexts>();
  for (int time = 0; time < 3; ++time) {
    JobOfHosts job({.hosts = 2, .perHost = 1}, -1, shared);
    job.onRanks([&](int64_t, Client &client) {
      const auto parts = allGather(client, std::to_string(time));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      EXPECT_EQ((*parts)[0], std::to_string(time));
    });
    if (time == 1) {
      job.memory(0).abort({Status(StatusCode::PeerFailed, "the second one fails"), 0});
      EXPECT_EQ(job.commonCause(), "the second one fails");
    }
  }
}

// -- Failures. --

TEST(OtherHosts, ShareAnyRanksAbort) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    JobOfHosts job({.hosts = 3, .perHost = 1});
    meetOnce(job);
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

TEST(OtherHosts, AgreeOnTheFirstOfSeveralAborts) {
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

/// All hosts must agree on whether the step was committed before the abort.
TEST(OtherHosts, CountAStepOnAllHostsOrNone) {
  int committed = 0;
  for (int round = 0; round < 30; ++round) {
    JobOfHosts job({.hosts = 3, .perHost = 1});
    meetOnce(job);
    std::atomic<int> succeeded{0};
    job.onRanks([&](int64_t rank, Client &client) {
      std::thread aborts([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
        if (rank == round % 3)
          client.memory().abort({Status(StatusCode::PeerFailed, "too late?"), rank});
      });
      succeeded += meet(client, "", 1).isOk() || client.memory().committed() == 1;
      aborts.join();
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

TEST(OtherHosts, HearOfADeadRank) {
  for (const int64_t rank : {0, 3}) {
    JobOfHosts job({.hosts = 2, .perHost = 2});
    meetOnce(job);
    shutdown(job.client(rank).connection().descriptor(), SHUT_RDWR);
    EXPECT_EQ(job.commonCause(), "rank " + std::to_string(rank) + " closed its connection");
  }
}

TEST(OtherHosts, HearOfARankThatLeavesTooEarly) {
  JobOfHosts job({.hosts = 2, .perHost = 2});
  meetOnce(job);
  job.client(3).disconnect();
  job.onRanks([&](int64_t rank, Client &client) {
    EXPECT_TRUE(rank == 3 || !allGather(client, "x").isOk());
  });
  EXPECT_EQ(job.commonCause(), "rank 3 left the job before the other ranks had finished");
}

TEST(OtherHosts, HearOfAHostThatLeavesTooEarly) {
  for (const int64_t gone : {0, 1}) {
    JobOfHosts job({.hosts = 3, .perHost = 1});
    meetOnce(job);
    job.onRanks([&](int64_t rank, Client &client) {
      if (rank == gone) {
        std::this_thread::sleep_for(50ms);
        job.endHost(gone);
      } else {
        EXPECT_FALSE(meet(client, "", 1).isOk());
      }
    });
    EXPECT_THAT(job.commonCause(),
                HasSubstr("host " + std::to_string(gone) + " (rank " + std::to_string(gone) +
                          ") left the job before the other ranks had finished"));
    for (int64_t host = 0; host < 3; ++host)
      EXPECT_TRUE(host == gone || job.memory(host).committed() == 0);
  }
}

// -- Missing hosts. --

TEST(OtherHosts, NameAHostThatNeverComes) {
  for (const int64_t missing : {0, 2}) {
    JobOfHosts job({.hosts = 3, .perHost = 2, .join = 3000ms}, missing);
    EXPECT_EQ(job.commonCause(),
              "expected 3 hosts to join within 3 s, but " +
                  std::string(missing == 0 ? "host 0 (ranks 0 to 1)" : "host 2 (ranks 4 to 5)") +
                  " did not");
    EXPECT_EQ(job.memory(1).cause()->status.code(), StatusCode::TimedOut);
  }
}

TEST(OtherHosts, AgreeOnTheirNumbers) {
  for (const JobShape &other : {JobShape{.hosts = 2, .perHost = 3}, JobShape{.hosts = 4}}) {
    JobOfHosts job({.hosts = 2, .perHost = 2}, 1);
    JobHost wrong(other, 1, job.shared());
    EXPECT_TRUE(eventually([&] { return wrong.memory().isAborted(); }));
    EXPECT_THAT(wrong.memory().cause()->status.message(), HasSubstr(" reports "));
    EXPECT_EQ(job.commonCause(), wrong.memory().cause()->status.message());
  }
}

// -- Unresponsive hosts, and an unresponsive store. --

TEST(OtherHosts, LoseAHostThatSaysNothing) {
  JobOfHosts job({.hosts = 3, .perHost = 2, .silence = 600ms});
  meetOnce(job);
  job.host(1).faults().isCut = true;
  EXPECT_TRUE(eventually([&] { return job.memory(0).isAborted() && job.memory(2).isAborted(); }));
  for (const int64_t host : {0, 2})
    EXPECT_EQ(
        job.memory(host).cause()->status.message(),
        "host 1 (ranks 2 to 3): no heartbeat for 0.6 s; it has stopped, is down or is unreachable");
  EXPECT_TRUE(eventually([&] { return job.memory(1).isAborted(); }));
  EXPECT_EQ(job.memory(1).cause()->status.message(),
            "host 0 (ranks 0 to 1): no heartbeat for 0.6 s; the store that connects the hosts is "
            "unreachable");
}

TEST(OtherHosts, FailWhenTheStoreIsLost) {
  JobOfHosts job({.hosts = 2, .perHost = 1, .silence = 600ms});
  meetOnce(job);
  const auto start = std::chrono::steady_clock::now();
  for (const int64_t host : {0, 1})
    job.host(host).faults().isGone = true;
  for (const int64_t host : {0, 1}) {
    EXPECT_TRUE(eventually([&] { return job.memory(host).isAborted(); }));
    EXPECT_EQ(job.memory(host).cause()->status.code(), StatusCode::TimedOut);
    EXPECT_THAT(job.memory(host).cause()->status.message(),
                HasSubstr("the store that connects the hosts is unreachable"));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
}

/// A host that is cut off from the store aborts with the cause that it proposed. The other host
/// aborts with a different cause.
TEST(OtherHosts, DecideAloneWhenTheyAreCutOff) {
  JobOfHosts job({.hosts = 2, .perHost = 1, .silence = 600ms});
  meetOnce(job);
  job.host(1).faults().isCut = true;
  job.memory(1).abort({Status(StatusCode::PeerFailed, "alone"), 1});
  EXPECT_FALSE(job.memory(1).isAborted());
  EXPECT_TRUE(eventually([&] { return job.memory(1).isAborted(); }));
  EXPECT_EQ(job.memory(1).cause()->status.message(), "alone");
  EXPECT_TRUE(eventually([&] { return job.memory(0).isAborted(); }));
  EXPECT_THAT(job.memory(0).cause()->status.message(), StartsWith("host 1 (rank 1): no heartbeat"));
}

TEST(OtherHosts, AreHeardAgainAfterASilence) {
  JobOfHosts job({.hosts = 2, .perHost = 1, .silence = 3000ms});
  meetOnce(job);
  job.host(1).faults().isCut = true;
  std::this_thread::sleep_for(500ms);
  EXPECT_GE(job.memory(0).roundTripNs(), 100'000'000u);
  job.host(1).faults().isCut = false;
  meetOnce(job);
  EXPECT_FALSE(job.memory(0).isAborted() || job.memory(1).isAborted());
}

// -- States and clocks of other hosts. --

TEST(OtherHosts, SeeWhatTheRanksOfOthersDo) {
  JobOfHosts job({.hosts = 3, .perHost = 1});
  meetOnce(job);
  for (uint32_t host = 0; host < 3; ++host)
    job.memory(host).slot(host).runs = 100 + host;
  EXPECT_TRUE(eventually([&] {
    for (uint32_t host = 0; host < 3; ++host)
      for (uint32_t rank = 0; rank < 3; ++rank)
        if (job.memory(host).slot(rank).runs != 100 + rank)
          return false;
    return true;
  }));
}

} // namespace
} // namespace braid
