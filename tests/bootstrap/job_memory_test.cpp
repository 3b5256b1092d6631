//===- tests/bootstrap/job_memory_test.cpp - one outcome for all ranks ------------------------===//

#include "runtime/job/bootstrap/job_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

JobMemory create(int64_t ranks) {
  Result<JobMemory> memory = JobMemory::create(ranks);
  EXPECT_TRUE(memory) << memory.status().message();
  return std::move(*memory);
}

FileDescriptor duplicate(int descriptor) {
  return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

// -- Begun runs. --

/// The fingerprints of the programs are equal or have equal low bits.
TEST(BegunRuns, ProgramsAreToldApart) {
  JobMemory memory = create(2);
  BegunRuns &mine = memory.slot(1).begunRuns;
  const uint64_t keys[] = {programKey(5, 0), programKey(21, 0), programKey(5, 700)};
  std::atomic<uint64_t> *counts[3];
  for (size_t i = 0; i < 3; ++i) {
    counts[i] = mine.add(keys[i]);
    ASSERT_NE(counts[i], nullptr);
  }
  for (size_t i = 0; i < 3; ++i)
    *counts[i] += 10 + i;
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(mine.of(keys[i]), 10 + i);
  EXPECT_EQ(memory.slot(0).begunRuns.of(keys[0]), std::nullopt) << "another rank's";
}

TEST(BegunRuns, ThereIsRoomForManyAndAgainForThoseThatGo) {
  JobMemory memory = create(1);
  BegunRuns &runs = memory.slot(0).begunRuns;
  for (uint32_t i = 0; i < BegunRuns::kMost; ++i) {
    std::atomic<uint64_t> *count = runs.add(programKey(1, i));
    ASSERT_NE(count, nullptr) << i;
    *count += i;
  }
  EXPECT_EQ(runs.add(programKey(2, 0)), nullptr);
  EXPECT_EQ(runs.of(programKey(2, 0)), std::nullopt);
  for (uint32_t i = 0; i < BegunRuns::kMost; ++i)
    ASSERT_EQ(runs.of(programKey(1, i)), i);
  runs.remove(programKey(1, 77));
  EXPECT_EQ(runs.of(programKey(1, 77)), std::nullopt);
  ASSERT_NE(runs.add(programKey(2, 0)), nullptr);
  EXPECT_EQ(runs.of(programKey(2, 0)), 0u) << "not what the one before had";
}

TEST(BegunRuns, OneProgramMayBeThereTwice) {
  JobMemory memory = create(1);
  BegunRuns &runs = memory.slot(0).begunRuns;
  *runs.add(3) += 1;
  *runs.add(3) += 1;
  runs.remove(3);
  EXPECT_EQ(runs.of(3), 2u);
  runs.remove(3);
  EXPECT_EQ(runs.of(3), std::nullopt);
}

// -- The outcome. --

JobCause causeOf(int64_t rank, std::string text) {
  return {Status(StatusCode::PeerFailed, std::move(text)), rank};
}

/// Runs `body` in a child process that then exits, and returns its status from waitpid(2).
template <class Body> int runInChild(Body body) {
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int state = -1;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  return state;
}

// -- Contents. --

TEST(JobMemoryTest, TellsWhatWasChosen) {
  JobMemory memory = create(2);
  EXPECT_EQ(memory.choice(), "");
  memory.publishChoice(std::string(5000, 'x'));
  EXPECT_EQ(memory.choice(), "") << "too long";
  memory.publishChoice("ring;chunks=2");
  Result<JobMemory> second = JobMemory::map(duplicate(memory.descriptor()), 2);
  ASSERT_TRUE(second) << second.status().message();
  EXPECT_EQ(second->choice(), "ring;chunks=2");
}

/// While a rank spins for a long time, its slot tells the watchdog that the rank is waiting.
TEST(JobMemoryTest, WhoSpinsForLongWaits) {
  JobMemory memory = create(2);
  auto activity = [&] { return memory.slot(0).activity.load(); };
  std::thread first([&] { EXPECT_TRUE(memory.spinUntilAllCome(0)); });
  while (activity() != HostActivity::InAllGather)
    std::this_thread::yield();
  EXPECT_TRUE(memory.spinUntilAllCome(1));
  first.join();
  EXPECT_EQ(activity(), HostActivity::OwnCode);
  std::thread second([&] { EXPECT_FALSE(memory.spinUntilAllCome(0)); });
  memory.abort(causeOf(1, "gone"));
  second.join();
}

// -- Mapping. --

TEST(JobMemoryTest, IsSharedByAllWhoMapIt) {
  JobMemory memory = create(3);
  Result<JobMemory> second = JobMemory::map(duplicate(memory.descriptor()), 3);
  ASSERT_TRUE(second) << second.status().message();
  EXPECT_EQ(second->ranks(), 3);
  memory.slot(2).issued.store(7);
  EXPECT_EQ(second->slot(2).issued.load(), 7u);
  EXPECT_EQ(second->slot(1).queue[31].current.load(), ~uint64_t(0));
  EXPECT_EQ(second->slot(1).queue[0].lastDone.load(), ~uint64_t(0));
  EXPECT_EQ(runInChild([&] { memory.slot(0).issued.store(5); }), 0);
  EXPECT_EQ(second->slot(0).issued.load(), 5u);
}

TEST(JobMemoryTest, IsClosedOnExec) {
  EXPECT_NE(fcntl(create(1).descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(JobMemoryTest, RefusesNoRanksAndTooMany) {
  for (int64_t ranks : {int64_t(0), int64_t(-1), int64_t(1) << 40}) {
    EXPECT_EQ(JobMemory::create(ranks).status().code(), StatusCode::BadInput);
    JobMemory memory = create(1);
    EXPECT_EQ(JobMemory::map(duplicate(memory.descriptor()), ranks).status().code(),
              StatusCode::BadInput);
  }
}

TEST(JobMemoryTest, MapsNothingElse) {
  auto expectRefused = [](FileDescriptor descriptor, int64_t ranks, const char *got) {
    const Status status = JobMemory::map(std::move(descriptor), ranks).status();
    EXPECT_EQ(status.code(), StatusCode::BadInput) << got;
    EXPECT_THAT(status.message(), HasSubstr(got));
  };
  JobMemory memory = create(2);
  const off_t bytes = lseek(memory.descriptor(), 0, SEEK_END);
  auto makeFile = [&](off_t size) {
    FileDescriptor file(memfd_create("other", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(file.get(), size), 0);
    return file;
  };
  expectRefused(FileDescriptor(), 2, "got a file of");
  expectRefused(duplicate(memory.descriptor()), 3, "got a file of");
  expectRefused(duplicate(memory.descriptor()), 1, "got that of a job with 2 ranks");
  expectRefused(makeFile(bytes - 1), 2, "got a file of");
  expectRefused(makeFile(bytes), 2, "of another version");
  expectRefused(FileDescriptor(open("/", O_RDONLY | O_CLOEXEC)), 2, "got a file of");
}

TEST(JobMemoryTest, CountsProgressOfAllRanks) {
  JobMemory memory = create(2);
  EXPECT_EQ(memory.progress(), 0u);
  memory.slot(0).issued.store(1);
  memory.slot(0).arrivals.store(10);
  memory.slot(1).queue[0].completed.store(100);
  memory.slot(1).queue[kQueueSlots - 1].completed.store(1000);
  memory.slot(1).completedBeyond.store(10000);
  EXPECT_EQ(memory.slot(0).progress(), 11u);
  EXPECT_EQ(memory.slot(1).completed(), 11100u);
  EXPECT_EQ(memory.slot(1).progress(), 11100u);
  EXPECT_EQ(memory.progress(), 11111u);
}

// -- Gathers and outcomes. --

/// If two ranks arrive at the same time, at least one must see that both have arrived.
TEST(JobMemoryTest, RanksThatComeTogetherFinishAGather) {
  constexpr uint32_t kGathers = 200000;
  JobMemory memory = create(2);
  std::atomic<bool> isStuck{false};
  std::atomic<uint32_t> ready{0}; // both ranks begin each gather at almost the same time
  std::atomic<uint32_t> steps{0};
  auto meet = [&](int64_t rank) {
    for (uint32_t number = 1; number <= kGathers && !isStuck; ++number) {
      ready.fetch_add(1);
      while (ready.load() < 2 * number && !isStuck)
        continue;
      for (uint32_t i = 0; rank == 0 && i < number % 32; ++i)
        steps.store(i, std::memory_order_relaxed);
      ASSERT_TRUE(memory.bring(rank, number, "", 0).isOk());
      for (int64_t look = 0; memory.gathered() != number && !isStuck; ++look)
        if (look > 1000 && look % 64 == 0) { // the other rank may be preempted
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          isStuck = isStuck || (look > 640000 && memory.haveCome(memory.allRanks(), number));
        }
    }
  };
  std::thread other(meet, 1);
  meet(0);
  other.join();
  EXPECT_EQ(memory.gathered(), kGathers);
}

TEST(JobMemoryTest, FirstCauseStays) {
  JobMemory memory = create(2);
  EXPECT_FALSE(memory.isAborted());
  EXPECT_FALSE(memory.cause());
  EXPECT_TRUE(memory.abort({Status(StatusCode::TimedOut, "first"), 1}));
  EXPECT_FALSE(memory.abort(causeOf(0, "second")));
  EXPECT_TRUE(memory.isAborted());
  std::optional<JobCause> cause = memory.cause();
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->status.code(), StatusCode::TimedOut);
  EXPECT_EQ(cause->status.message(), "first");
  EXPECT_EQ(cause->rank, 1);
}

TEST(JobMemoryTest, CommittedStepsOutliveAnAbort) {
  JobMemory memory = create(2);
  EXPECT_TRUE(memory.commit(1));
  EXPECT_TRUE(memory.commit(2));
  EXPECT_TRUE(memory.commit(1)) << "it was committed before";
  EXPECT_EQ(memory.committed(), 2u);
  EXPECT_TRUE(memory.abort(causeOf(0, "late")));
  EXPECT_EQ(memory.committed(), 2u);
  EXPECT_TRUE(memory.commit(2)) << "what is committed stays so";
  EXPECT_FALSE(memory.commit(3));
  EXPECT_EQ(memory.committed(), 2u);
  EXPECT_TRUE(memory.isAborted());
}

TEST(JobMemoryTest, LongTextsAreCut) {
  JobMemory memory = create(1);
  EXPECT_TRUE(memory.abort(causeOf(-1, "start" + std::string(1 << 20, 'x'))));
  std::optional<JobCause> cause = memory.cause();
  ASSERT_TRUE(cause);
  EXPECT_THAT(cause->status.message(), StartsWith("startxxx"));
  EXPECT_GE(cause->status.message().size(), 8000u);
  EXPECT_LT(cause->status.message().size(), size_t(1) << 15);
  EXPECT_EQ(cause->rank, -1);
}

/// A process is killed at a random moment during abort(). Afterwards, either the job is open and
/// another process can abort it, or the cause is complete.
TEST(JobMemoryTest, DeadWriterLeavesAllOrNothing) {
  const std::string text(16000, 'c');
  int aborted = 0;
  for (int round = 0; round < 100; ++round) {
    JobMemory memory = create(2);
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
      JobCause cause = causeOf(1, text);
      [[maybe_unused]] ssize_t written = write(ready[1], "x", 1);
      memory.abort(cause);
      for (;;)
        pause();
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    for (std::atomic<int> delay{0}; delay.fetch_add(1) < round * 50;)
      ;
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
    close(ready[1]);
    const bool wasAborted = memory.isAborted();
    aborted += wasAborted;
    EXPECT_EQ(memory.abort(causeOf(0, "mine")), !wasAborted);
    std::optional<JobCause> cause = memory.cause();
    ASSERT_TRUE(cause);
    EXPECT_EQ(cause->status.message(), wasAborted ? text : "mine");
  }
  RecordProperty("aborted", aborted);
}

/// Many threads, some with separate mappings, call abort() and commit() concurrently.
TEST(JobMemoryTest, RacesHaveOneOutcome) {
  constexpr int kThreads = 8, kRounds = 200;
  int commits = 0;
  for (int round = 0; round < kRounds; ++round) {
    JobMemory memory = create(kThreads);
    Result<JobMemory> other = JobMemory::map(duplicate(memory.descriptor()), kThreads);
    ASSERT_TRUE(other);
    std::atomic<int> waiting{kThreads}, first{0}, seenCommitted{0}, seenAborted{0};
    std::vector<std::string> seen(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        JobMemory &mine = i % 2 ? *other : memory;
        --waiting;
        while (waiting.load() != 0)
          std::this_thread::yield();
        if (i < kThreads / 2) {
          first += mine.abort(causeOf(i, "cause " + std::to_string(i)));
          seen[i] = mine.cause()->status.message();
        } else if (mine.commit(1)) {
          ++seenCommitted;
        } else {
          ++seenAborted;
          seen[i] = mine.cause()->status.message();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(first.load(), 1);
    EXPECT_TRUE(seenCommitted == 0 || seenAborted == 0) << "both committed and aborted";
    EXPECT_EQ(memory.committed(), seenCommitted == 0 ? 0u : 1u);
    commits += seenCommitted != 0;
    std::optional<JobCause> cause = memory.cause();
    EXPECT_EQ(cause->status.message(), "cause " + std::to_string(cause->rank));
    for (const std::string &text : seen)
      if (!text.empty()) {
        EXPECT_EQ(text, cause->status.message());
      }
  }
  RecordProperty("commits", commits);
}

} // namespace
} // namespace braid
