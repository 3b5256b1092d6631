//===- tests/bootstrap/outcome_test.cpp - outcomes of a job that another host decides ---------===//

#include "runtime/job/bootstrap/job_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace braid {
namespace {

JobMemory outcomeOn(int64_t host) {
  Result<JobMemory> memory = JobMemory::create(4, {host, 2});
  EXPECT_TRUE(memory.isOk()) << memory.status().message();
  return std::move(*memory);
}

JobCause failureNamed(std::string text) {
  return {Status(StatusCode::PeerFailed, std::move(text)), 0};
}

/// Events that affect the outcome on one host. Each happens once.
enum Event : int { Abort, OtherAbort, Decided, DecideHere, Commit, kEvents };

/// A model of the outcome that does not use atomics.
struct Expected {
  bool isElsewhere = true;
  std::optional<std::string> proposal, cause;
  uint32_t committed = 0;

  bool abort(const std::string &text) {
    if (proposal || cause)
      return false;
    (isElsewhere ? proposal : cause) = text;
    return true;
  }
  void decided(const std::string &text) {
    if (!cause)
      cause = text;
    proposal.reset();
    isElsewhere = false;
  }
  void decideHere() {
    if (proposal)
      cause = std::exchange(proposal, std::nullopt);
    isElsewhere = false;
  }
  bool commit() {
    if (!cause)
      committed = 1;
    return committed == 1;
  }
};

void apply(Event event, JobMemory &memory, Expected &expected) {
  switch (event) {
  case Abort:
    EXPECT_EQ(memory.abort(failureNamed("one")), expected.abort("one"));
    break;
  case OtherAbort:
    EXPECT_EQ(memory.abort(failureNamed("another")), expected.abort("another"));
    break;
  case Decided:
    memory.abortDecided(failureNamed("the store's"));
    expected.decided("the store's");
    break;
  case DecideHere:
    memory.decideHere();
    expected.decideHere();
    break;
  case Commit:
    EXPECT_EQ(memory.commit(1), expected.commit());
    break;
  case kEvents:
    break;
  }
}

void check(const JobMemory &memory, const Expected &expected) {
  auto text = [](const std::optional<JobCause> &cause) {
    return cause ? std::optional(cause->status.message()) : std::nullopt;
  };
  EXPECT_EQ(text(memory.proposal()), expected.proposal);
  EXPECT_EQ(text(memory.cause()), expected.cause);
  EXPECT_EQ(memory.isAborted(), expected.cause.has_value());
  EXPECT_EQ(memory.committed(), expected.committed);
}

/// Applies all events in every order, which includes every sequence of fewer events.
TEST(OutcomeElsewhere, IsRightInEveryOrder) {
  std::vector<int> order(kEvents);
  for (int i = 0; i < kEvents; ++i)
    order[static_cast<size_t>(i)] = i;
  do {
    JobMemory memory = outcomeOn(1);
    Expected expected;
    std::string shown;
    for (const int event : order) {
      shown += std::to_string(event) + " ";
      SCOPED_TRACE(shown);
      apply(static_cast<Event>(event), memory, expected);
      check(memory, expected);
      if (::testing::Test::HasFailure())
        return;
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(OutcomeElsewhere, WhoProposesWaitsUntilItIsDecided) {
  for (const bool isHere : {false, true}) {
    JobMemory memory = outcomeOn(1);
    EXPECT_TRUE(memory.abort(failureNamed("one")));
    EXPECT_FALSE(memory.isAborted());
    std::atomic<bool> isOver{false};
    std::thread waiting([&] {
      memory.awaitDecision();
      isOver = true;
      EXPECT_TRUE(memory.isAborted());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(isOver);
    if (isHere)
      memory.decideHere();
    else
      memory.abortDecided(failureNamed("the store's"));
    waiting.join();
    EXPECT_EQ(memory.cause()->status.message(), isHere ? "one" : "the store's");
  }
}

/// Until the round-trip time has passed, this host may not know yet that a step was committed, so
/// it must not decide.
TEST(OutcomeElsewhere, NobodyDecidesAsLongAsAnAnswerMayBeUnderWay) {
  using namespace std::chrono_literals;
  JobMemory memory = outcomeOn(1);
  memory.setRoundTripNs(1000000000);
  EXPECT_TRUE(memory.abort(failureNamed("one")));
  const auto start = std::chrono::steady_clock::now();
  std::thread waiting([&] { memory.awaitDecision(50ms); });
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(memory.commit(1));
  EXPECT_FALSE(memory.isAborted());
  waiting.join();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 1050ms);
  EXPECT_TRUE(memory.isAborted());
  EXPECT_EQ(memory.committed(), 1u);
}

TEST(OutcomeElsewhere, ThoseWhoMapTheMemorySeeWhereTheyAre) {
  JobMemory memory = outcomeOn(1);
  auto mapped = JobMemory::map(FileDescriptor(dup(memory.descriptor())), 4);
  ASSERT_TRUE(mapped.isOk()) << mapped.status().message();
  EXPECT_EQ(mapped->host(), 1);
  EXPECT_EQ(mapped->ranksPerHost(), 2);
  EXPECT_FALSE(mapped->isHere(1));
  EXPECT_TRUE(mapped->isHere(2));
  EXPECT_TRUE(mapped->abort(failureNamed("one")));
  EXPECT_TRUE(memory.proposal().has_value());
}

/// Each event happens on a separate thread, so the events may happen in any order.
TEST(OutcomeElsewhere, ThreadsAgree) {
  for (int round = 0; round < 300; ++round) {
    JobMemory memory = outcomeOn(1);
    std::atomic<int> ready{0}, won{0};
    std::atomic<bool> wasCommitted{false};
    std::vector<std::thread> threads;
    for (int event = 0; event < kEvents; ++event)
      threads.emplace_back([&, event] {
        for (++ready; ready < kEvents;)
          std::this_thread::yield();
        switch (event) {
        case Abort:
        case OtherAbort:
          won += memory.abort(failureNamed(event == Abort ? "one" : "another"));
          break;
        case Decided:
          if (round % 2 == 0)
            memory.abortDecided(failureNamed("the store's"));
          break;
        case DecideHere:
          memory.decideHere();
          break;
        default:
          wasCommitted = memory.commit(1);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_LE(won, 1);
    EXPECT_FALSE(memory.proposal().has_value()) << "somebody has decided";
    ASSERT_TRUE(memory.cause().has_value());
    const std::string text = memory.cause()->status.message();
    EXPECT_TRUE(text == "one" || text == "another" || (round % 2 == 0 && text == "the store's"));
    EXPECT_EQ(memory.committed(), wasCommitted ? 1u : 0u);
    EXPECT_FALSE(memory.abort(failureNamed("late")));
  }
}

} // namespace
} // namespace braid
