//===- tests/backends/cpu_test.cpp - what only the cpu backend promises -----------------------===//

#include "backends/cpu/command_queue.h"
#include "backends/cpu/scheduler.h"
#include "tests/backends/backend_test.h"

#include <set>
#include <thread>

namespace braid::test {
namespace {

TEST(CpuTest, ProductLongerThanTheTimeoutIsProgress) {
  ClusterOptions options;
  options.timeout = std::chrono::milliseconds(5);
  Result<std::unique_ptr<Cluster>> cluster = allBackends().find("cpu")->create(options);
  ASSERT_TRUE(cluster);
  Device &device = (*cluster)->device(0);
  Plan plan = makePlan(0, 1);
  constexpr int64_t kSize = 700;
  std::vector<double> a(kSize * kSize, 1), c(kSize * kSize);
  device.startTrace();
  device.matmul(0, tagOf(plan, CommandKind::Matmul),
                {DType::F64, false, kSize, kSize, kSize, a.data(), a.data(), nullptr, c.data()});
  EXPECT_EQ(device.synchronize().message(), "");
  EXPECT_EQ(c.back(), double(kSize));
  std::vector<Span> spans = device.takeTrace();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_GT(spans[0].endNs - spans[0].beginNs, 5000000) << "the test needs a longer product";
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
  Picker picker = seededPicker(1234567);
  std::vector<Candidate> candidates(1000);
  std::vector<size_t> picks;
  for (int i = 0; i < 4; ++i)
    picks.push_back(picker(candidates));
  // SplitMix64 of 1234567 begins with 6457827717110365317, 3203168211198807973,
  // 9817491932198370423 and 4593380528125082431.
  EXPECT_EQ(picks, (std::vector<size_t>{317, 973, 423, 431}));
}

TEST(CpuTest, PickerReachesEveryCandidate) {
  Picker picker = seededPicker(0);
  std::vector<Candidate> candidates(5);
  std::set<size_t> picks;
  for (int i = 0; i < 200; ++i)
    picks.insert(picker(candidates));
  EXPECT_EQ(picks.size(), 5u);
}

} // namespace
} // namespace braid::test
