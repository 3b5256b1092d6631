//===- tests/backends/null_test.cpp - behavior that is specific to the null backend -----------===//

#include "backends/null/null_backend.h"

#include "tests/backends/backend_test.h"

namespace braid::test {
namespace {

TEST(NullTest, CountsWhatIsIssued) {
  ClusterOptions options;
  options.ranks = 2;
  Result<std::unique_ptr<Cluster>> cluster = allBackends().find("null")->create(options);
  ASSERT_TRUE(cluster);
  NullDevice &device = static_cast<NullDevice &>((*cluster)->device(1));
  ASSERT_TRUE(device.reserveStreams(9).isOk());
  ASSERT_TRUE(device.createEvents(3));
  Result<uint32_t> next = device.createEvents(1);
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, 3u);
  Device &issued = device;
  for (int i = 0; i < 1; ++i)
    issued.copy(0, {}, nullptr, nullptr, 100);
  for (int i = 0; i < 2; ++i)
    issued.compute().matmul(0, {}, {});
  for (int i = 0; i < 3; ++i)
    issued.compute().sum(0, {}, {});
  for (int i = 0; i < 4; ++i)
    signal(issued, 0, {}, nullptr, 1);
  for (int i = 0; i < 5; ++i)
    await(issued, 0, {}, nullptr, 1);
  for (int i = 0; i < 6; ++i)
    issued.record(0, {}, 0);
  for (int i = 0; i < 7; ++i)
    issued.waitEvent(0, {}, 0);
  const NullCounts &counts = device.counts();
  EXPECT_EQ(counts.copies, 1u);
  EXPECT_EQ(counts.copiedBytes, 100u);
  EXPECT_EQ(counts.matmuls, 2u);
  EXPECT_EQ(counts.sums, 3u);
  EXPECT_EQ(counts.signals, 4u);
  EXPECT_EQ(counts.awaits, 5u);
  EXPECT_EQ(counts.records, 6u);
  EXPECT_EQ(counts.waitEvents, 7u);
  EXPECT_EQ(counts.commands(), 28u);
  EXPECT_EQ(device.streams(), 9u);
  EXPECT_TRUE(device.synchronize().isOk());
  EXPECT_EQ(static_cast<NullDevice &>((*cluster)->device(0)).counts().commands(), 0u);
}

TEST(NullTest, RefusesWhatItCannotHonour) {
  ClusterOptions seeded, queued;
  seeded.scheduleSeed = 1;
  queued.queues = 2;
  for (const ClusterOptions &options : {seeded, queued}) {
    auto cluster = allBackends().find("null")->create(options);
    ASSERT_FALSE(cluster);
    EXPECT_EQ(cluster.status().code(), StatusCode::Unsupported);
  }
}

TEST(RegistryTest, FindsByName) {
  ASSERT_NE(allBackends().find("cpu"), nullptr);
  EXPECT_EQ(allBackends().find("cpu")->name, "cpu");
  EXPECT_TRUE(allBackends().find("cpu")->computes);
  EXPECT_FALSE(allBackends().find("null")->computes);
  EXPECT_EQ(allBackends().find("cp"), nullptr);
  EXPECT_EQ(allBackends().find(""), nullptr);
}

} // namespace
} // namespace braid::test
