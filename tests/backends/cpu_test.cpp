//===- tests/backends/cpu_test.cpp - behavior that is specific to the cpu backend -------------===//

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/job_recorder.h"
#include "backends/cpu/queue/command_queue.h"
#include "backends/cpu/queue/scheduler.h"
#include "tests/backends/backend_test.h"

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace braid::test {
namespace {

#ifndef __SANITIZE_THREAD__ // builds with ThreadSanitizer do not contain OpenBLAS

/// Expects that a process can exit with its exit code while a GEMM is running, as a rank does if
/// its job fails. OpenBLAS cleans up at exit, and exit handlers of other libraries may delay the
/// exit.
void expectToEndDuring(const MatmulArgs &args, int rounds) {
  for (int i = 0; i < rounds; ++i)
    EXPECT_EXIT(
        {
          std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
          initializeGemms();
          std::thread([&] {
            Scratch scratch;
            multiply(args, scratch, GemmBy::Library);
          }).detach();
          std::this_thread::sleep_for(std::chrono::milliseconds(30 + i));
          std::exit(7);
        },
        testing::ExitedWithCode(7), "");
}

TEST(CpuTest, AProcessMayEndWhileAGemmIsUnderWay) {
  constexpr int64_t kSize = 3000;
  std::vector<float> a(kSize * kSize, 1), c(kSize * kSize);
  expectToEndDuring({DType::F32, false, kSize, kSize, kSize, a.data(), a.data(), nullptr, nullptr,
                     c.data(), false, DType::F32},
                    5);
}

/// Between two panels, no thread is inside OpenBLAS.
TEST(CpuTest, AProcessMayEndWhileAGemmGoesByPanels) {
  constexpr int64_t kRows = 256, kColumns = 65536, kDepth = 64;
  std::vector<uint16_t> a(kRows * kDepth, 0x3f80), b(kDepth * kColumns, 0x3f80);
  std::vector<uint16_t> c(kRows * kColumns);
  expectToEndDuring({DType::BF16, false, kRows, kColumns, kDepth, a.data(), b.data(), nullptr,
                     nullptr, c.data(), false, DType::BF16},
                    40);
}

#endif

/// Throws at the first sum, and counts the commands that it observes.
class PickyObserver final : public CommandObserver {
public:
  explicit PickyObserver(std::array<std::atomic<int>, 3> &calls) : calls_(calls) {}
  void issued(uint32_t, const QueuedCommand &) override { ++calls_[0]; }
  bool begin(uint32_t, const QueuedCommand &command) override {
    ++calls_[1];
    if (command.kind == QueuedCommand::Kind::Sum)
      throw std::runtime_error("no sums today");
    return command.kind != QueuedCommand::Kind::Store; // skips signals
  }
  void end(uint32_t, const QueuedCommand &) override { ++calls_[2]; }

private:
  std::array<std::atomic<int>, 3> &calls_;
};

TEST(CpuTest, ObserverMayPassOverAndThrow) {
  std::array<std::atomic<int>, 3> calls{};
  BackendRegistry registry;
  registerCpuBackend(registry, [&](int64_t) { return std::make_unique<PickyObserver>(calls); });
  Plan plan = makePlan(0, 1);
  Result<std::unique_ptr<Cluster>> cluster = registry.find("cpu")->create({});
  ASSERT_TRUE(cluster);
  Device &device = (*cluster)->device(0);
  uint32_t flag = 0;
  float value = 1;
  signal(device, 0, tagOf(plan, CommandKind::Signal), &flag, 5);
  EXPECT_EQ(device.synchronize().message(), "");
  EXPECT_EQ(flag, 0u);
  device.compute().sum(
      0, tagOf(plan, CommandKind::Sum, 3),
      {DType::F32, DType::F32, 1, 1, sizeof value, &value, nullptr, 0, &value, DType::F32, true});
  signal(device, 0, tagOf(plan, CommandKind::Signal), &flag, 6);
  Status status = device.synchronize();
  EXPECT_EQ(status.code(), StatusCode::PeerFailed);
  EXPECT_EQ(status.message(),
            "rank 0 failed in \"node 2\" at test.braid:12:5, run 3: no sums today");
  EXPECT_EQ(value, 1);
  EXPECT_EQ(calls[1], 2) << "what is dropped is not seen";
  EXPECT_EQ(calls[2], 1) << "what throws does not end";
}

TEST(CpuTest, RecorderWritesDownWhatRuns) {
  Result<JobMemory> memory = JobMemory::create(1);
  ASSERT_TRUE(memory);
  RankSlot &slot = memory->slot(0);
  JobRecorder recorder(slot, nullptr);
  recorder.opened(0);
  recorder.opened(1);
  QueuedCommand wait{};
  wait.kind = QueuedCommand::Kind::Wait;
  wait.tag.command = 8;
  wait.tag.run = 2;
  wait.args.flag.value = 7;
  recorder.issued(1, wait);
  EXPECT_EQ(slot.queues.load(), 2u);
  EXPECT_EQ(slot.issued.load(), 1u);
  EXPECT_EQ(slot.runs.load(), 2u);
  EXPECT_TRUE(recorder.begin(1, wait));
  recorder.waiting(1, wait, 6);
  const QueueSlot &queue = slot.queue[1];
  const uint64_t number = uint64_t(2) << 32 | 8;
  EXPECT_EQ(queue.current.load(), number);
  EXPECT_EQ(queue.isWaiting.load(), 1u);
  EXPECT_EQ(queue.flagValue.load(), 6u);
  EXPECT_EQ(queue.wantedValue.load(), 7u);
  recorder.end(1, wait);
  EXPECT_EQ(queue.current.load(), ~uint64_t(0));
  EXPECT_EQ(queue.lastDone.load(), number);
  EXPECT_EQ(queue.completed.load(), 1u);
  EXPECT_EQ(queue.isWaiting.load(), 0u);
}

TEST(CpuTest, RecorderCountsHiddenQueues) {
  Result<JobMemory> memory = JobMemory::create(1);
  ASSERT_TRUE(memory);
  RankSlot &slot = memory->slot(0);
  JobRecorder recorder(slot, nullptr);
  for (uint32_t queue = 0; queue < kQueueSlots + 2; ++queue)
    recorder.opened(queue);
  EXPECT_EQ(slot.queues.load(), kQueueSlots);
  const QueuedCommand command{};
  for (uint32_t queue : {0u, kQueueSlots + 1}) {
    const uint64_t before = slot.progress();
    recorder.begin(queue, command);
    recorder.end(queue, command);
    EXPECT_GT(slot.progress(), before);
  }
  EXPECT_EQ(slot.queue[0].completed.load(), 1u);
  EXPECT_EQ(slot.completedBeyond.load(), 1u);
}

TEST(CpuTest, CommandsCrossChunksInOrder) {
  constexpr uint32_t kCount = 100000;
  CommandQueue queue;
  std::thread consumer([&] {
    for (uint32_t expected = 0; expected < kCount;) {
      const QueuedCommand *command = queue.front();
      if (!command) {
        queue.sleep(std::chrono::milliseconds(100));
        continue;
      }
      ASSERT_EQ(command->tag.command, expected++);
      queue.pop();
    }
    EXPECT_EQ(queue.front(), nullptr);
  });
  for (uint32_t i = 0; i < kCount; ++i) {
    QueuedCommand command{};
    command.tag.command = i;
    ASSERT_TRUE(queue.push(command));
  }
  consumer.join();
}

TEST(CpuTest, PickerIsTheSameEverywhere) {
  Picker picker = seededPicker(1);
  std::vector<RunnableHead> candidates(1000);
  std::vector<size_t> picks;
  for (int i = 0; i < 4; ++i)
    picks.push_back(picker(candidates));
  // The first three numbers of SplitMix64 with seed 1 select a phase of 2^5 picks with equal
  // probabilities. The next numbers are 8196980753821780235, 8195237237126968761,
  // 14072917602864530048, 16184226688143867045.
  EXPECT_EQ(picks, (std::vector<size_t>{235, 761, 48, 45}));
}

/// The picker holds a queue back longer than equal probabilities would, but not forever.
TEST(CpuTest, PickerKeepsHeadsBack) {
  Picker picker = seededPicker(1);
  std::vector<RunnableHead> candidates;
  for (uint32_t queue = 0; queue < 5; ++queue)
    candidates.push_back({0, queue, nullptr});
  std::vector<size_t> last(5, 0);
  size_t longest = 0;
  for (size_t i = 1; i <= 5000; ++i) {
    const size_t pick = picker(candidates);
    longest = std::max(longest, i - last[pick]);
    last[pick] = i;
  }
  EXPECT_GT(longest, 100u) << "1 in 10^9 with equal chances";
  EXPECT_LT(longest, 4000u);
}

} // namespace
} // namespace braid::test
