//===- tests/backends/schedule_test.cpp - conformance: seeds and shared queues ----------------===//

#include "tests/backends/backend_test.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <thread>

namespace braid::test {
namespace {

using std::chrono::milliseconds;
using ::testing::StartsWith;

/// Tests for backends that can derive their execution order from a seed. Skipped for other
/// backends.
class ScheduleTest : public ::testing::TestWithParam<std::string> {
protected:
  Result<std::unique_ptr<Cluster>> create(ClusterOptions options) {
    const Backend &backend = *allBackends().find(GetParam());
    if (!backend.create)
      return Status(StatusCode::Unsupported, "for good: its ranks are processes");
    return backend.create(options);
  }
  void SetUp() override {
    ClusterOptions options;
    options.scheduleSeed = 1;
    Result<std::unique_ptr<Cluster>> cluster = create(options);
    if (!cluster && cluster.status().code() == StatusCode::Unsupported)
      GTEST_SKIP() << cluster.status().message();
  }

  /// Returns the execution order of 3 ranks with 4 streams of 5 records each.
  std::string orderOf(uint64_t seed) {
    constexpr int64_t kRanks = 3;
    ClusterOptions options;
    options.ranks = kRanks;
    options.scheduleSeed = seed;
    Result<std::unique_ptr<Cluster>> cluster = create(options);
    EXPECT_TRUE(cluster);
    Plan plan = makePlan(0, kRanks);
    std::vector<std::vector<Span>> spans(kRanks);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { spans[rank] = runRecords((*cluster)->device(rank), plan); });
    for (std::thread &thread : threads)
      thread.join();
    return inOrder(spans);
  }

private:
  static std::vector<Span> runRecords(Device &device, const Plan &plan) {
    EXPECT_TRUE(device.reserveStreams(4).isOk());
    EXPECT_TRUE(device.createEvents(4));
    device.tracer()->startTrace();
    for (uint32_t run = 1; run <= 5; ++run)
      for (uint32_t stream = 0; stream < 4; ++stream)
        device.record(stream, tagOf(plan, CommandKind::Record, run), stream);
    EXPECT_TRUE(device.synchronize().isOk());
    return device.tracer()->takeTrace();
  }

  static std::string inOrder(const std::vector<std::vector<Span>> &spans) {
    std::vector<std::pair<int64_t, std::string>> all;
    for (size_t rank = 0; rank < spans.size(); ++rank)
      for (const Span &span : spans[rank])
        all.push_back({span.beginNs, std::to_string(rank) + "." + std::to_string(span.stream) +
                                         "." + std::to_string(span.tag.run) + " "});
    EXPECT_EQ(all.size(), 60u);
    std::sort(all.begin(), all.end());
    std::string text;
    for (const auto &[begin, name] : all)
      text += name;
    return text;
  }
};

TEST_P(ScheduleTest, SameSeedGivesSameOrder) {
  for (uint64_t seed : {0, 1, 42})
    EXPECT_EQ(orderOf(seed), orderOf(seed)) << "seed " << seed;
}

TEST_P(ScheduleTest, DifferentSeedsGiveDifferentOrders) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 20; ++seed)
    orders.insert(orderOf(seed));
  EXPECT_EQ(orders.size(), 20u);
}

TEST_P(ScheduleTest, DeadlockIsReportedAtOnce) {
  ClusterOptions options;
  options.ranks = 2;
  options.scheduleSeed = 3;
  options.timeout = milliseconds(600000);
  Result<std::unique_ptr<Cluster>> cluster = create(options);
  ASSERT_TRUE(cluster);
  std::vector<Plan> plans = {makePlan(0, 2), makePlan(1, 2)};
  (*cluster)->setPlans(plans);
  std::vector<Status> outcomes(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Device &device = (*cluster)->device(rank);
      Result<void *> flag = device.allocate(ArenaKind::Symmetric, kFlagStride);
      await(device, 0, tagOf(plans[rank], CommandKind::Await), *flag, 1);
      outcomes[rank] = device.synchronize();
    });
  auto begin = std::chrono::steady_clock::now();
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(20000));
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[rank].code(), StatusCode::TimedOut);
    EXPECT_THAT(
        outcomes[rank].message(),
        StartsWith("deadlock: no rank can make progress: the ranks are waiting for each other: "
                   "rank 0 is waiting for rank 1 in \"node 5\" at test.braid:15:5, run 1 "
                   "(the flag is 0, expected 1); "
                   "rank 1 is waiting for rank 0 in \"node 5\" at test.braid:15:5, run 1 "));
  }
}

std::vector<std::string> backendNames() {
  std::vector<std::string> names;
  for (const Backend &backend : allBackends().all())
    names.push_back(backend.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(, ScheduleTest, ::testing::ValuesIn(backendNames()),
                         [](const auto &test) { return test.param; });

/// Tests for backends whose streams can share queues.
class QueueTest : public ::testing::TestWithParam<std::string> {
protected:
  Result<std::unique_ptr<Cluster>> create(uint32_t queues, milliseconds timeout) {
    ClusterOptions options;
    options.queues = queues;
    options.timeout = timeout;
    const Backend &backend = *allBackends().find(GetParam());
    if (!backend.create)
      return Status(StatusCode::Unsupported, "for good: its ranks are processes");
    return backend.create(options);
  }
  void SetUp() override {
    Result<std::unique_ptr<Cluster>> cluster = create(1, milliseconds(20000));
    if (!cluster && cluster.status().code() == StatusCode::Unsupported)
      GTEST_SKIP() << cluster.status().message();
  }
};

TEST_P(QueueTest, OneQueueIsInIssueOrder) {
  Result<std::unique_ptr<Cluster>> cluster = create(1, milliseconds(20000));
  ASSERT_TRUE(cluster);
  Device &device = (*cluster)->device(0);
  ASSERT_TRUE(device.reserveStreams(5).isOk());
  ASSERT_TRUE(device.createEvents(5));
  Plan plan = makePlan(0, 1);
  device.tracer()->startTrace();
  for (uint32_t run = 1; run <= 400; ++run)
    device.record(run * 7 % 5, tagOf(plan, CommandKind::Record, run), run * 7 % 5);
  ASSERT_TRUE(device.synchronize().isOk());
  std::vector<Span> spans = device.tracer()->takeTrace();
  std::sort(spans.begin(), spans.end(),
            [](const Span &a, const Span &b) { return a.tag.run < b.tag.run; });
  ASSERT_EQ(spans.size(), 400u);
  for (size_t i = 1; i < spans.size(); ++i)
    EXPECT_LE(spans[i - 1].endNs, spans[i].beginNs);
}

/// Issues the same commands with one queue per stream, and with fewer queues.
TEST_P(QueueTest, ProgramThatNeedsTwoQueuesIsFoundOut) {
  for (uint32_t queues : {0, 2, 1}) {
    Result<std::unique_ptr<Cluster>> cluster =
        create(queues, queues == 1 ? milliseconds(200) : milliseconds(20000));
    ASSERT_TRUE(cluster);
    Device &device = (*cluster)->device(0);
    ASSERT_TRUE(device.reserveStreams(2).isOk());
    Result<void *> flag = device.allocate(ArenaKind::Symmetric, kFlagStride);
    Plan plan = makePlan(0, 1);
    await(device, 0, tagOf(plan, CommandKind::Await), *flag, 1);
    signal(device, 1, tagOf(plan, CommandKind::Signal), *flag, 1);
    Status status = device.synchronize();
    EXPECT_EQ(status.code(), queues == 1 ? StatusCode::TimedOut : StatusCode::Ok) << queues;
  }
}

INSTANTIATE_TEST_SUITE_P(, QueueTest, ::testing::ValuesIn(backendNames()),
                         [](const auto &test) { return test.param; });

} // namespace
} // namespace braid::test
