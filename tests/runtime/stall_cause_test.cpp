//===- tests/runtime/stall_cause_test.cpp - rank states, and the rank that causes a stall -----===//

#include "runtime/job/job_view.h"
#include "runtime/job/stall_cause.h"

#include "tests/runtime/fake_job.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using test::FakeJob;
using test::kRelaxed;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;
using namespace std::chrono_literals;

std::vector<std::string> linesOf(const JobCause &cause) {
  std::vector<std::string> lines(1);
  for (char c : cause.status.message())
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

std::string firstLine(const JobCause &cause) { return linesOf(cause).front(); }

JobCause stall(const FakeJob &job, std::chrono::milliseconds timeout = 300ms) {
  return stallCause(job.memory, KnownPlans(job.plans), timeout);
}

std::string rankText(const FakeJob &job, const KnownPlans &plans, int64_t rank) {
  return JobView(job.memory, plans).rankText(rank);
}
std::string rankText(const FakeJob &job, int64_t rank) {
  return rankText(job, KnownPlans(job.plans), rank);
}

/// Returns a job in which all ranks have completed run 1 and wait for the first transfer of run 2.
FakeJob waitingForEachOther(int64_t ranks) {
  FakeJob job(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    job.issue(rank, 2);
    job.completeUpTo(rank, 1, static_cast<uint32_t>(job.plans[rank].commands.size()));
    job.enter(rank, 2, job.find(rank, CommandKind::Await, "p2p recv", 1), /*isWaiting=*/true);
  }
  return job;
}

/// Like waitingForEachOther(), but `rank` executes user code and has issued only run 1.
FakeJob waitingForOwnCode(int64_t ranks, int64_t rank) {
  FakeJob job = waitingForEachOther(ranks);
  job.issue(rank, 1);
  for (QueueSlot &queue : job.memory.slot(rank).queue)
    queue.current.store(~uint64_t(0), kRelaxed);
  job.host(rank, HostActivity::OwnCode, 700);
  return job;
}

/// Returns a job of ranks without Plans that are in an all-gather.
FakeJob gathering(int64_t ranks, HostActivity activity = HostActivity::InAllGather) {
  FakeJob job(ranks, /*hasPlans=*/false);
  for (int64_t rank = 0; rank < ranks; ++rank)
    job.host(rank, activity, 400);
  return job;
}

TEST(RankText, NamesTheCommandItIsInAndTheLastOne) {
  FakeJob job(4);
  job.issue(2, 1);
  const uint32_t copy = job.find(2, CommandKind::Copy, "set %out", 2);
  job.completeUpTo(2, 1, copy);
  job.enter(2, 1, copy, /*isWaiting=*/false);
  EXPECT_THAT(
      rankText(job, 2),
      MatchesRegex("rank 2 is executing \"set %out, %block\" \\(trip 2\\) at ring.braid:16:5, run "
                   "1, for [0-9.]+ s so far; last completed: \"%r = p2p recv .*\" \\(trip 2\\) at "
                   "ring.braid:13:5, run 1"));
  // Numbers the commands as those of a trial program, which ranks time to choose a schedule.
  numberCommands(job.plans, 1000);
  EXPECT_THAT(rankText(job, 2), MatchesRegex("rank 2 is executing command [0-9]+, run 1, for .*"));
}

TEST(RankText, NamesTheCommandsOfEachProgramOfItsJob) {
  FakeJob job(4);
  std::vector<Plan> later = job.plans;
  for (Plan &plan : later)
    plan.sourceName = "later.braid";
  EXPECT_EQ(numberCommands(later, 5000), 5000 + later.front().commands.size());
  KnownPlans plans(job.plans);
  plans.add(later);
  job.issue(2, 1);
  const uint32_t copy = job.find(2, CommandKind::Copy, "set %out", 2);
  job.completeUpTo(2, 1, copy);
  job.enter(2, 1, copy, /*isWaiting=*/false);
  job.memory.slot(2).queue[job.plans[2].commands[copy].stream].current += 5000;
  EXPECT_THAT(
      rankText(job, plans, 2),
      MatchesRegex("rank 2 is executing \"set %out, %block\" \\(trip 2\\) at later.braid:16:5, "
                   "run 1, for .*; last completed: .* at ring.braid:13:5, run 1"));
  plans.add({});
  EXPECT_THAT(rankText(job, plans, 2), StartsWith("rank 2 is executing command 50"));
}

TEST(RankText, NamesThePeerAndTheFlagOfAWait) {
  FakeJob job = waitingForEachOther(4);
  EXPECT_THAT(
      rankText(job, 3),
      AllOf(StartsWith("rank 3 is waiting for rank 0 in \"%r = p2p recv %block from (rank + %i) "
                       "mod 4 via %h\" (trip 1) at ring.braid:13:5, run 2 (the flag is 1, "
                       "expected 2), for "),
            HasSubstr("; last completed: ")));
  EXPECT_THAT(rankText(job, {}, 0),
              MatchesRegex("rank 0 is waiting in command [0-9]+, run 2, for .*"));
  job.enter(1, 2, job.find(1, CommandKind::Copy, "set %mine"), /*isWaiting=*/false);
  EXPECT_THAT(rankText(job, 1), StartsWith("rank 1 is executing \"set %mine, %own\""))
      << "work comes before waits";
}

TEST(RankText, SaysWhatTheHostThreadDoes) {
  FakeJob job(3, /*hasPlans=*/false);
  const std::pair<HostActivity, const char *> texts[] = {
      {HostActivity::OwnCode, "rank 1 is executing the caller's code, for "},
      {HostActivity::InAllGather, "rank 1 is waiting for the other ranks in an all-gather, for "},
      {HostActivity::InSynchronize, "rank 1 is waiting for its device, for "},
      {HostActivity::AskingHost, "rank 1 is waiting for the process that hosts the job, for "},
      {HostActivity::Committing, "rank 1 is waiting for all ranks to finish, for "},
  };
  for (const auto &[activity, text] : texts) {
    job.host(1, activity, 500);
    EXPECT_THAT(rankText(job, 1), AllOf(StartsWith(text), HasSubstr("; nothing completed yet")));
  }
  job.memory.slot(1).state.store(RankState::Absent, kRelaxed);
  EXPECT_EQ(rankText(job, 1), "rank 1 has not joined");
  job.memory.slot(1).state.store(RankState::Left, kRelaxed);
  EXPECT_THAT(rankText(job, 1), StartsWith("rank 1 has left"));
}

TEST(RankText, SurvivesMemoryThatSaysNonsense) {
  FakeJob job(2);
  RankSlot &slot = job.memory.slot(0);
  slot.activity.store(HostActivity(77), kRelaxed);
  slot.queues.store(~0u, kRelaxed);
  for (QueueSlot &queue : slot.queue) {
    queue.current.store(uint64_t(9) << 32 | 123456789, kRelaxed);
    queue.lastDone.store(uint64_t(9) << 32 | 987654321, kRelaxed);
    queue.isWaiting.store(5, kRelaxed);
  }
  EXPECT_THAT(rankText(job, 0), StartsWith("rank 0 is waiting in command 123456789, run 9"));
  EXPECT_EQ(stall(job).status.code(), StatusCode::TimedOut);
}

TEST(StallCause, BlamesARankWithoutHeartbeatFirst) {
  FakeJob job = waitingForEachOther(4);
  job.enter(1, 2, job.find(1, CommandKind::Copy, "set %mine"), /*isWaiting=*/false, 600);
  job.host(3, HostActivity::OwnCode, 600);
  job.memory.slot(2).heartbeatNs.store(job.ago(400), kRelaxed);
  const JobCause cause = stall(job);
  EXPECT_EQ(cause.rank, 2);
  EXPECT_EQ(cause.status.code(), StatusCode::TimedOut);
  EXPECT_THAT(
      firstLine(cause),
      MatchesRegex("no progress for 300 ms: rank 2 has been unresponsive for [0-9.]+ s "
                   "\\(is it stopped\\?\\): rank 2 is waiting for rank 3 in \"%r = p2p recv .*\" "
                   "\\(trip 1\\) at ring.braid:13:5, run 2 .*; last completed: .*, run 1"));
  job.memory.slot(1).heartbeatNs.store(job.ago(500), kRelaxed);
  EXPECT_EQ(stall(job).rank, 1) << "the longest silence";
  job.memory.slot(3).heartbeatNs.store(0, kRelaxed);
  EXPECT_EQ(stall(job).rank, 3) << "before its first heartbeat, since it took up what it does";
}

/// The first rank of this host relays other hosts' states, so other hosts also appear silent.
TEST(StallCause, BlamesTheRankWithoutHeartbeatOnThisHost) {
  FakeJob job(4, /*hasPlans=*/true, {.host = 1, .hosts = 2});
  for (int64_t rank : {0, 1})
    job.memory.slot(rank).heartbeatNs.store(job.ago(600), kRelaxed);
  job.memory.slot(2).heartbeatNs.store(job.ago(400), kRelaxed);
  EXPECT_EQ(stall(job).rank, 2);
}

TEST(StallCause, AllowsAWatchdogHalfOfTheTimeout) {
  FakeJob job = waitingForEachOther(3);
  for (auto [agoMs, isSilent] : {std::pair(0, false), {29000, false}, {31000, true}}) {
    job.memory.slot(1).heartbeatNs.store(job.ago(static_cast<uint64_t>(agoMs)), kRelaxed);
    const std::string line = firstLine(stall(job, 60000ms));
    EXPECT_EQ(line.find("has been unresponsive") != std::string::npos, isSilent) << agoMs;
  }
}

TEST(StallCause, ForgivesTheSilenceOfARankThatLeft) {
  FakeJob job = waitingForEachOther(3);
  job.memory.slot(1).heartbeatNs.store(job.ago(4000), kRelaxed);
  job.memory.slot(1).state.store(RankState::Left, kRelaxed);
  const JobCause cause = stall(job);
  EXPECT_EQ(cause.rank, 1);
  EXPECT_THAT(firstLine(cause), StartsWith("no progress for 300 ms: rank 1 has left"));
}

TEST(StallCause, BlamesACommandThatWaitsForNobody) {
  FakeJob job = waitingForEachOther(4);
  job.host(3, HostActivity::OwnCode, 600);
  job.enter(0, 2, job.find(0, CommandKind::Copy, "set %mine"), /*isWaiting=*/false, 300);
  job.enter(1, 2, job.find(1, CommandKind::Copy, "set %out", 2), /*isWaiting=*/false, 500);
  const JobCause cause = stall(job);
  EXPECT_EQ(cause.rank, 1);
  EXPECT_THAT(
      firstLine(cause),
      MatchesRegex("no progress for 300 ms: rank 1 is executing \"set %out, %block\" \\(trip "
                   "2\\) at ring.braid:16:5, run 2, for [0-9.]+ s so far; last completed: .*"));
}

TEST(StallCause, BlamesOwnCodeThatHasNotIssuedWhatOthersWaitFor) {
  const JobCause cause = stall(waitingForOwnCode(4, 2));
  EXPECT_EQ(cause.rank, 2);
  EXPECT_THAT(firstLine(cause), MatchesRegex("no progress for 300 ms: rank 2 is executing the "
                                             "caller's code, for [0-9.]+ s so far; last "
                                             "completed: .*, run 1"));
}

/// Rank 0 has completed all its work; rank 2 has issued one run fewer.
TEST(StallCause, BlamesTheIdleRankWithTheFewestRuns) {
  FakeJob job = waitingForOwnCode(4, 2);
  for (QueueSlot &queue : job.memory.slot(0).queue)
    queue.current.store(~uint64_t(0), kRelaxed);
  job.host(0, HostActivity::OwnCode, 700);
  EXPECT_EQ(stall(job).rank, 2);
}

TEST(StallCause, DoesNotBlameOwnCodeWhoseQueuesWait) {
  FakeJob job = waitingForEachOther(4);
  job.host(2, HostActivity::OwnCode, 700); // has issued all its work; its queue waits
  EXPECT_THAT(firstLine(stall(job)), HasSubstr("waiting for each other"));
}

TEST(StallCause, BlamesARankThatAGatheringWaitsFor) {
  for (HostActivity activity : {HostActivity::InAllGather, HostActivity::Committing}) {
    FakeJob job = gathering(4, activity);
    job.host(2, HostActivity::OwnCode, 400);
    EXPECT_EQ(stall(job).rank, 2);
    EXPECT_THAT(firstLine(stall(job)),
                StartsWith("no progress for 300 ms: rank 2 is executing the caller's code"));
    job.memory.slot(1).state.store(RankState::Absent, kRelaxed);
    EXPECT_EQ(stall(job).rank, 1) << "first of all, one that is not there";
    EXPECT_THAT(firstLine(stall(job)), StartsWith("no progress for 300 ms: rank 1 has not joined"));
  }
}

TEST(StallCause, BlamesARankWhoseQueuesDoNotMove) {
  FakeJob job = waitingForOwnCode(3, 2);
  job.issue(2, 2);
  job.host(2, HostActivity::InSynchronize, 400);
  const JobCause cause = stall(job);
  EXPECT_EQ(cause.rank, 2);
  EXPECT_THAT(firstLine(cause), HasSubstr("rank 2 is waiting for its device"));
}

TEST(StallCause, DistinguishesALostSignalFromOneToCome) {
  FakeJob job = waitingForEachOther(4);
  // Rank 2 has signaled rank 1 in run 2, and is waiting in another command.
  job.complete(2, 2, job.find(2, CommandKind::Signal, "p2p send", 1));
  const JobCause cause = stall(job);
  EXPECT_EQ(cause.rank, 2);
  EXPECT_THAT(firstLine(cause),
              AllOf(StartsWith("no progress for 300 ms: rank 2 has already signaled rank 1, so the "
                               "signal was lost; rank 1 is waiting for rank 2 in \"%r = p2p recv "),
                    HasSubstr("(trip 1) at ring.braid:13:5, run 2 (the flag is 1, expected 2)")));
}

/// All ranks are in the all-gather, but rank 2 has not contributed its text.
TEST(StallCause, BlamesARankThatIsLateInAGathering) {
  FakeJob job = gathering(4);
  for (int64_t rank : {0, 1, 3})
    job.memory.slot(rank).gathers = 7;
  job.memory.slot(2).gathers = 6;
  EXPECT_EQ(stall(job).rank, 2);
  EXPECT_THAT(firstLine(stall(job)),
              StartsWith("no progress for 300 ms: rank 2 is waiting for the other ranks"));
  job.memory.slot(2).gathers = 7;
  EXPECT_EQ(stall(job).rank, -1);
}

TEST(StallCause, ReportsACycleWithAllItsWaits) {
  const JobCause cause = stall(waitingForEachOther(3));
  EXPECT_EQ(cause.rank, -1);
  EXPECT_THAT(firstLine(cause),
              AllOf(HasSubstr("no progress for 300 ms: the ranks are waiting for each "
                              "other: rank 0 is waiting for rank 1 in \"%r = p2p recv"),
                    HasSubstr("; rank 1 is waiting for rank 2 in "),
                    HasSubstr("; rank 2 is waiting for rank 0 in ")));
  ASSERT_EQ(linesOf(cause).size(), 4u);
  for (int64_t rank = 0; rank < 3; ++rank)
    EXPECT_THAT(
        linesOf(cause)[1 + rank],
        AllOf(StartsWith(fmt::format("  rank {} is waiting for rank {} in ", rank, (rank + 1) % 3)),
              HasSubstr("; last completed: ")));
}

TEST(StallCause, NamesSomebodyWithoutPlans) {
  const JobCause cause = stallCause(waitingForOwnCode(4, 2).memory, {}, 300ms);
  EXPECT_EQ(cause.rank, 2);
  EXPECT_THAT(firstLine(cause),
              StartsWith("no progress for 300 ms: rank 2 is executing the caller's code"));
}

TEST(StallCause, ShowsSixteenRanksAndThoseThatMatter) {
  FakeJob job = waitingForEachOther(100);
  job.memory.slot(77).heartbeatNs.store(job.ago(4000), kRelaxed);
  const std::vector<std::string> lines = linesOf(stall(job));
  ASSERT_EQ(lines.size(), 18u);
  EXPECT_THAT(lines[16], StartsWith("  rank 77 "));
  EXPECT_EQ(lines[17], "  and 84 more ranks");
}

TEST(StallCause, WorksForOneRankAndForMany) {
  for (int64_t ranks : {1, 2, 512}) {
    FakeJob job(ranks);
    job.host(ranks - 1, HostActivity::OwnCode, 500);
    EXPECT_THAT(firstLine(stall(job)), StartsWith("no progress for 300 ms: "));
  }
  EXPECT_THAT(firstLine(stall(waitingForEachOther(512))), EndsWith("; and so on"));
}

} // namespace
} // namespace braid
