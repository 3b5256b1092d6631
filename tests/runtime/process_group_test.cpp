//===- tests/runtime/process_group_test.cpp - guarantees for ranks that are processes ---------===//

#include "runtime/job/process_group.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <set>

#include <poll.h>

namespace braid {
namespace {

using std::chrono::milliseconds;

// -- The stall rule. --

constexpr uint64_t kMs = 1000000;

/// Calls isStalled() with times at intervals of 10 ms, starting at `from`. Returns the time in ms
/// until it reports a stall, at most 5000.
uint64_t askUntilStalled(StallRule &rule, uint64_t from, uint64_t blockedSince) {
  for (uint64_t now = from; now < from + 5000 * kMs; now += 10 * kMs)
    if (rule.isStalled(now, 1, true, blockedSince))
      return (now - from) / kMs;
  return 5000;
}

TEST(StallRuleTest, FiresAfterTheTimeout) {
  StallRule rule(milliseconds(1000), milliseconds(50));
  EXPECT_EQ(askUntilStalled(rule, 5000 * kMs, 0), 1000u);
}

TEST(StallRuleTest, ProgressStartsTheTimeAnew) {
  StallRule rule(milliseconds(1000), milliseconds(50));
  for (uint64_t step = 0; step < 1000; ++step)
    ASSERT_FALSE(rule.isStalled((5000 + step * 10) * kMs, step / 50, true, 0));
}

TEST(StallRuleTest, OwnCodeIsNoStall) {
  StallRule rule(milliseconds(1000), milliseconds(50));
  for (uint64_t step = 0; step < 1000; ++step)
    ASSERT_FALSE(rule.isStalled((5000 + step * 10) * kMs, 1, false, 0));
  // The other ranks have not made any progress, but this rank has only just begun to wait.
  EXPECT_EQ(askUntilStalled(rule, 15000 * kMs, 15000 * kMs), 1000u);
}

TEST(StallRuleTest, WhoWasAwayAccusesNobodyAtOnce) {
  StallRule rule(milliseconds(1000), milliseconds(50));
  for (uint64_t step = 0; step < 90; ++step)
    ASSERT_FALSE(rule.isStalled((5000 + step * 10) * kMs, 1, true, 0));
  // This process was stopped for ten seconds.
  EXPECT_EQ(askUntilStalled(rule, 16000 * kMs, 0), 1000u);
}

// -- The process group. --

/// A job whose ranks are all groups in this process.
class ProcessGroupTest : public ::testing::Test {
protected:
  void start(int64_t ranks, milliseconds timeout = milliseconds(30000)) {
    host_ = std::make_unique<Host>(ranks);
    groups_.resize(static_cast<size_t>(ranks));
    onEveryRank([&](int64_t rank) {
      auto client =
          Client::join(host_->name(), {.job = "job", .rank = rank, .ranks = ranks}, soon());
      ASSERT_TRUE(client) << client.status().message();
      groups_[rank] = std::make_unique<ProcessGroup>(std::move(*client), timeout);
      ASSERT_TRUE(groups_[rank]->start().isOk());
    });
  }
  void TearDown() override {
    onEveryRank([&](int64_t rank) {
      if (groups_[rank])
        groups_[rank]->close();
      groups_[rank].reset();
    });
  }
  void onEveryRank(const std::function<void(int64_t)> &body) {
    onAllRanks(static_cast<int64_t>(groups_.size()), body);
  }
  ProcessGroup &group(int64_t rank) { return *groups_[static_cast<size_t>(rank)]; }
  ControlPlane &control(int64_t rank) { return group(rank).control(rank); }

  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
};

TEST_F(ProcessGroupTest, MemoryIsSharedUnderTwoAddresses) {
  start(2);
  Result<void *> mine = group(0).allocateSymmetric(1000);
  ASSERT_TRUE(mine);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*mine) % 256, 0u);
  Result<std::string> handle = group(0).exportMemory(*mine);
  ASSERT_TRUE(handle);
  Result<void *> theirs = group(1).open(0, *handle);
  ASSERT_TRUE(theirs) << theirs.status().message();
  EXPECT_NE(*mine, *theirs);
  static_cast<char *>(*mine)[999] = 'x';
  EXPECT_EQ(static_cast<char *>(*theirs)[999], 'x');
  EXPECT_EQ(*group(1).open(0, *handle), *theirs) << "mapped once";
  EXPECT_EQ(*group(0).open(0, *handle), *mine);
  EXPECT_EQ(*group(0).exportMemory(*mine), *handle) << "offered once";
}

TEST_F(ProcessGroupTest, MemoryIsHandedOutAgainOnlyWhenItIsRecycled) {
  start(1);
  auto allocate = [&](int64_t bytes) { return *group(0).allocateSymmetric(bytes); };
  void *first = allocate(100000);
  std::string handle = *group(0).exportMemory(first);
  static_cast<char *>(first)[99999] = 'x';
  group(0).releaseSymmetric(first);
  EXPECT_NE(allocate(100000), first);
  group(0).recycleSymmetric();
  EXPECT_EQ(allocate(60000), first);
  EXPECT_EQ(*group(0).exportMemory(first), handle);
  void *rest = allocate(20000);
  EXPECT_LT(first, rest);
  EXPECT_LT(rest, static_cast<char *>(first) + 100000) << "what is left of the first one";
  for (size_t i = 0; i < 20000; ++i)
    ASSERT_EQ(static_cast<char *>(rest)[i], 0);
}

/// Returns the resident shared memory of this process in MiB, as reported by the kernel.
size_t residentSharedMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (size_t kilobytes = 0; word == "RssShmem:" && status >> kilobytes)
      return kilobytes >> 10;
  return 0;
}

/// Blocks grow, so none can be reused. Recycled memory is freed even if peers have it mapped.
TEST_F(ProcessGroupTest, RecycledMemoryIsGivenBackToTheKernel) {
  start(2);
  const size_t before = residentSharedMemory();
  for (int64_t mebibytes = 1; mebibytes < 40; ++mebibytes) {
    const int64_t bytes = mebibytes << 20;
    void *mine = *group(0).allocateSymmetric(bytes);
    std::memset(mine, 1, static_cast<size_t>(bytes));
    void *theirs = *group(1).open(0, *group(0).exportMemory(mine));
    ASSERT_EQ(static_cast<char *>(theirs)[bytes - 1], 1);
    EXPECT_EQ(group(0).symmetricBytes(), bytes);
    group(0).releaseSymmetric(mine);
    EXPECT_EQ(group(0).symmetricBytes(), bytes) << "a peer may not be done with it";
    group(0).recycleSymmetric();
    EXPECT_EQ(group(0).symmetricBytes(), 0);
    ASSERT_LE(residentSharedMemory(), before + 1) << mebibytes;
  }
}

/// The blocks of many small programs must share mappings, because one mapping per block could
/// exceed the kernel's limit.
TEST_F(ProcessGroupTest, SmallBlocksShareMappings) {
  start(2);
  std::vector<char *> mine, theirs;
  for (size_t i = 0; i < 1000; ++i) {
    Result<void *> base = group(0).allocateSymmetric(static_cast<int64_t>(100 + 10 * i));
    ASSERT_TRUE(base) << base.status().message();
    Result<std::string> handle = group(0).exportMemory(*base);
    ASSERT_TRUE(handle) << handle.status().message();
    Result<void *> opened = group(1).open(0, *handle);
    ASSERT_TRUE(opened) << opened.status().message();
    mine.push_back(static_cast<char *>(*base));
    theirs.push_back(static_cast<char *>(*opened));
  }
  for (size_t i = 0; i < mine.size(); ++i)
    std::memset(mine[i], static_cast<int>(i % 100), 100 + 10 * i);
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(theirs[i][0], static_cast<char>(i % 100));
    EXPECT_EQ(theirs[i][99 + 10 * i], static_cast<char>(i % 100));
  }
}

TEST_F(ProcessGroupTest, RefusesHandlesOfNothing) {
  start(2);
  Result<void *> mine = group(0).allocateSymmetric(1000);
  ASSERT_TRUE(group(0).exportMemory(*mine));
  for (const char *handle :
       {"shared:0:1:1024:0", "shared:0:0:512:0", "shared:0:0:1048576:0", "shared:0:0::0",
        "shared:0:-1:1024:0", "shared:0:0:1024", "shared:0:0:1024:1024", "shared:0:0:1024:-1",
        "shared:0:0:1024:0:0", "", "::::"}) {
    Result<void *> memory = group(1).open(0, handle);
    ASSERT_FALSE(memory) << handle;
    EXPECT_EQ(memory.status().code(), StatusCode::BadInput) << handle;
  }
  EXPECT_FALSE(group(0).open(2, "shared:2:0:1024:0"));
  EXPECT_FALSE(group(0).open(0, "shared:0:7:1024:0"));
  EXPECT_FALSE(group(0).isAborted());
}

TEST_F(ProcessGroupTest, RefusesMoreMemoryThanThereIs) {
  start(1);
  for (int64_t bytes : {int64_t(1) << 46, int64_t(1) << 62, int64_t(-1)}) {
    Result<void *> memory = group(0).allocateSymmetric(bytes);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.status().code(), StatusCode::Unsupported);
  }
}

TEST_F(ProcessGroupTest, CommitIsForAllOrForNone) {
  std::set<int> outcomes;
  for (int round = 0; round < 40; ++round) {
    start(4);
    std::vector<Status> statuses(5);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] { statuses[rank] = control(rank).commit(); });
    for (std::atomic<int> delay{0}; delay.fetch_add(1) < round * 2000;)
      ;
    group(round % 4).abort(Status(StatusCode::PeerFailed, "too late?"));
    for (std::thread &thread : threads)
      thread.join();
    for (int64_t rank = 1; rank < 4; ++rank)
      ASSERT_EQ(statuses[rank].code(), statuses[0].code()) << "round " << round;
    EXPECT_EQ(host_->memory->committed(), statuses[0].isOk() ? 1u : 0u);
    outcomes.insert(static_cast<int>(statuses[0].code()));
    TearDown();
    groups_.clear();
  }
  RecordProperty("outcomes", static_cast<int>(outcomes.size()));
}

TEST_F(ProcessGroupTest, CommitFailsIfAnotherRankIsInAnotherCall) {
  start(2);
  std::vector<Status> statuses(2);
  onEveryRank([&](int64_t rank) {
    statuses[rank] = rank == 0 ? control(0).commit() : control(1).allGather("").status();
  });
  ASSERT_EQ(statuses[0].code(), StatusCode::BadInput);
  EXPECT_EQ(statuses[0].message(),
            "expected all ranks to commit, but another rank is making a different call");
  EXPECT_EQ(control(1).commit().message(), statuses[0].message());
  EXPECT_EQ(host_->memory->committed(), 0u);
}

TEST_F(ProcessGroupTest, TheLongestTimeLimitIsNone) {
  start(2, milliseconds::max());
  std::vector<Status> statuses(2);
  onEveryRank([&](int64_t rank) {
    std::this_thread::sleep_for(milliseconds(500 * rank));
    statuses[rank] = control(rank).allGather("").status();
  });
  EXPECT_TRUE(statuses[0].isOk()) << statuses[0].message();
  EXPECT_TRUE(statuses[1].isOk()) << statuses[1].message();
}

/// The killed process may take long to exit and to unmap its memory.
TEST_F(ProcessGroupTest, CloseDoesNotWaitForAKilledRank) {
  start(2);
  group(0).abort(Status(StatusCode::TimedOut, "the cause"));
  group(1).slot().isKilled = 1;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(group(0).close(ProcessGroup::AfterAbort::Waits));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1500))
      << "it gives up after 2 s";
}

/// Plans of two ranks, each with one wait for rank 1.
std::vector<Plan> plansThatWait() {
  std::vector<Plan> plans(2);
  for (Plan &plan : plans) {
    plan.sourceName = "slow.braid";
    plan.sites.push_back({{12, 5}, "%r = p2p recv"});
    plan.origins.push_back({0, 0, 0});
    Endpoint endpoint{};
    endpoint.peer = 1;
    plan.endpoints.push_back(endpoint);
    Command command{.kind = CommandKind::Await};
    command.endpoint = 0;
    plan.commands.push_back(command);
  }
  return plans;
}

/// Sets a rank's state to waiting in the first command of run 3.
void beginToWait(ProcessGroup &group) {
  QueueSlot &queue = group.slot().queue[0];
  group.slot().queues.store(1);
  queue.sinceNs.store(monotonicNs());
  queue.current.store(uint64_t(3) << 32);
  queue.isWaiting.store(1);
}

TEST_F(ProcessGroupTest, NobodyWaitsForARankThatHasLeft) {
  start(2);
  const std::vector<Plan> plans = plansThatWait();
  group(0).setPlans(plans);
  beginToWait(group(0));
  groups_[1]->close();
  groups_[1].reset();
  const auto begin = std::chrono::steady_clock::now();
  while (!group(0).isAborted() && std::chrono::steady_clock::now() - begin < milliseconds(10000))
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, milliseconds(900))
      << "what it signaled last may be on its way";
  EXPECT_EQ(group(0).failure().code(), StatusCode::PeerFailed);
  EXPECT_EQ(group(0).failure().message(),
            "rank 1 has left the job, but rank 0 is waiting for rank 1 in \"%r = p2p recv\" at "
            "slow.braid:12:5, run 3 (the flag is 0, expected 0)");
}

TEST_F(ProcessGroupTest, TheTimeLimitIsNoneForASlowPeer) {
  start(2, milliseconds(800));
  const std::vector<Plan> plans = plansThatWait();
  group(0).setPlans(plans);
  beginToWait(group(0));
  std::thread rank0([&] { (void)control(0).allGather(""); });
  // Rank 1 is busy for twice the timeout. This is not a stall, because the rank makes progress.
  for (int i = 0; i < 160; ++i) {
    control(1).tick();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(group(0).isAborted()) << group(0).failure().message();
  EXPECT_TRUE(control(1).allGather(""));
  rank0.join();
}

/// A rank that is a thread may run a command, such as a large GEMM, for longer than the timeout.
TEST(RankGroupTest, RunningCommandIsNoStall) {
  Result<JobMemory> memory = JobMemory::create(1);
  ASSERT_TRUE(memory);
  RankSlot &slot = memory->slot(0);
  slot.queues = 1;
  slot.queue[0].current = uint64_t(1) << 32;
  RankGroup group(*memory, milliseconds(5));
  slot.setActivity(HostActivity::InSynchronize);
  ASSERT_TRUE(group.start().isOk());
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(group.isAborted()) << group.failure().message();
  slot.queue[0].isWaiting = 1;
  EXPECT_TRUE(eventually([&] { return group.isAborted(); }));
  EXPECT_EQ(group.failure().code(), StatusCode::TimedOut);
}

/// A host that welcomes a rank and then never replies, like a process that has been stopped.
TEST(StoppedHostTest, IsReportedAfterTheTimeout) {
  Result<JobMemory> memory = JobMemory::create(1);
  Result<RendezvousPlace> place = listenAnywhere();
  ASSERT_TRUE(memory && place);
  std::optional<Connection> host;
  std::thread welcome([&] {
    waitUntilReady(place->listener.get(), POLLIN, soon());
    host.emplace(acceptFrom(place->listener));
    ASSERT_TRUE(host->receive(soon()));
    memory->slot(0).state = RankState::Joined;
    ASSERT_TRUE(host->send("W", memory->descriptor()).isOk());
  });
  ProcessGroup group(joinAs(place->name, 0, 1), milliseconds(300));
  welcome.join();
  ASSERT_TRUE(group.start().isOk());
  const Result<std::string> handle = group.exportMemory(*group.allocateSymmetric(64));
  EXPECT_EQ(handle.status().code(), StatusCode::TimedOut);
  EXPECT_EQ(handle.status().message().substr(0, 78),
            "no progress for 300 ms: rank 0 is waiting for the process that hosts the job, ");
  group.close();
}

/// Measures the CPU time of all threads of this process, which only wait.
TEST_F(ProcessGroupTest, WaitingTakesNoTime) {
  start(2);
  std::thread rank0([&] { (void)control(0).allGather(""); });
  auto usedMs = [] { return std::clock() * 1000 / CLOCKS_PER_SEC; };
  const auto before = usedMs();
  std::this_thread::sleep_for(milliseconds(2000));
  EXPECT_LT(usedMs() - before, 100) << "5 % of a core";
  EXPECT_TRUE(control(1).allGather(""));
  rank0.join();
}

TEST_F(ProcessGroupTest, LostHostIsACauseOnlyBeforeTheEnd) {
  start(2);
  std::vector<Status> statuses(2);
  onEveryRank([&](int64_t rank) { statuses[rank] = control(rank).commit(); });
  EXPECT_TRUE(statuses[0].isOk() && statuses[1].isOk());
  host_->rendezvous.reset();
  // Commits that completed before the host was lost remain successful; new ones fail.
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_FALSE(group(0).isAborted());
  onEveryRank([&](int64_t rank) { statuses[rank] = control(rank).commit(); });
  for (const Status &status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::PeerFailed);
    EXPECT_EQ(status.message(), statuses[0].message());
  }
  EXPECT_EQ(host_->memory->committed(), 1u);
}

} // namespace
} // namespace braid
