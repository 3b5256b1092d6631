//===- tests/hosts/simulator_test.cpp - what the network costs --------------------------------===//

#include "runtime/simulate/simulator.h"
#include "tests/hosts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// Within a host only GEMMs take time.
CostModel freeModel() {
  CostModel model;
  OperationCosts costs;
  for (CopyCost *copy : {&costs.local, &costs.pull, &costs.push})
    *copy = {0, 1e12};
  model.add(costs);
  model.add(GemmCost{.dtype = DType::F32, .m = 1, .n = 1, .k = 1, .us = 0});
  model.network = {.latencyUs = 7, .bytesPerUs = 2};
  return model;
}

/// Each rank sends `count` floats to the rank of its number on the other host.
std::string crossing(int64_t ranks, int64_t count) {
  const std::string n = std::to_string(ranks), half = std::to_string(ranks / 2),
                    c = std::to_string(count);
  return "program @p mesh [0 .. " + n + ") of " + half + " (%A: f32[" + c + "]) -> (%C: f32[" + c +
         "]) {\n  %a = allocate symmetric f32[" + c + "]\n  %h = share_mem_handles get %a\n" +
         "  set %a, %A\n  group {\n    %s = p2p send %a to (rank + " + half + ") mod " + n +
         " via %h\n    %r = p2p recv %C from (rank + " + half + ") mod " + n +
         " via %h\n  }\n  wait %r\n  wait %s\n}\n";
}

Simulation simulated(const HostsCase &made, const CostModel &model) {
  Result<Simulation> result = simulate(made.plans, model, {});
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result ? std::move(*result) : Simulation();
}

TEST(HostsSimulator, TakesTheLatencyAndTheBytes) {
  const Simulation one = simulated(hostsCase(crossing(2, 100)), freeModel());
  EXPECT_NEAR(one.us, 7 + 400 / 2.0, 0.01);
  EXPECT_THAT(one.traffic.sentByRank, testing::ElementsAre(400, 400));
  EXPECT_THAT(one.traffic.sentByHost, testing::ElementsAre(400, 400));
}

TEST(HostsSimulator, SharesTheNetworkOfAHost) {
  const Simulation three = simulated(hostsCase(crossing(6, 100)), freeModel());
  EXPECT_NEAR(three.us, 7 + 3 * 400 / 2.0, 0.01);
  EXPECT_THAT(three.traffic.sentByHost, testing::ElementsAre(1200, 1200));
}

TEST(HostsSimulator, SharesTheNetworkOfARank) {
  CostModel model = freeModel();
  model.network = {.latencyUs = 7, .bytesPerUs = 6, .rankBytesPerUs = 1};
  EXPECT_NEAR(simulated(hostsCase(crossing(2, 100)), model).us, 7 + 400 / 1.0, 0.01);
  EXPECT_NEAR(simulated(hostsCase(crossing(6, 100)), model).us, 7 + 400 / 1.0, 0.01);
  model.network.bytesPerUs = 2;
  EXPECT_NEAR(simulated(hostsCase(crossing(6, 100)), model).us, 7 + 3 * 400 / 2.0, 0.01);
}

TEST(HostsSimulator, CountsWhatAGatherSends) {
  const int64_t block = 4 * 5 * 4;
  const Simulation pairwise = simulated(hostsCase(gatherOf(6, 3), "pairwise"), freeModel());
  EXPECT_THAT(pairwise.traffic.sentByRank, testing::Each(3 * block)); // once for each rank there
  EXPECT_THAT(pairwise.traffic.sentByHost, testing::ElementsAre(9 * block, 9 * block));
  const Simulation ring = simulated(hostsCase(gatherOf(6, 3), "ring"), freeModel());
  EXPECT_THAT(ring.traffic.sentByHost, testing::ElementsAre(5 * block, 5 * block));
  EXPECT_LT(ring.us, pairwise.us);
  const Simulation collective = simulated(hostsCase(gatherOf(6, 3), "collective"), freeModel());
  EXPECT_THAT(collective.traffic.sentByHost, testing::ElementsAre(9 * block, 9 * block));
}

TEST(HostsSimulator, CountsNothingOnOneHost) {
  const Simulation one = simulated(hostsCase(gatherOf(6, 6), "pairwise"), freeModel());
  EXPECT_TRUE(one.traffic.sentByRank.empty());
}

/// Rank 1 gets what rank 0 has from the beginning, but their whole has rank 2, which is late.
TEST(HostsSimulator, WaitsUntilAllOfAWholeHaveCome) {
  CostModel model = freeModel();
  model.add(GemmCost{.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 50});
  const Simulation late = simulated(hostsCase(R"(
program @late mesh [0 .. 3) of 1 (%A: f32[4, 4], %B: f32[4, 4]) -> (%C: f32[4, 4]) {
  %a = allocate symmetric f32[4, 4]
  %h = share_mem_handles get %a
  if rank == 2 {
    matmul %a, %A, %B
  } else {
    set %a, %A
  }
  group {
    %s = p2p send %a to (rank + 1) mod 3 via %h
    %r = p2p recv %C from (rank - 1) mod 3 via %h
  }
  wait %r
  wait %s
}
)"),
                                    model);
  ASSERT_EQ(late.spelled.size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    const auto copy = llvm::find_if(late.spelled[rank].commands, [](const Command &command) {
      return command.kind == CommandKind::Copy && command.endpoint != kNone;
    });
    const auto at = static_cast<size_t>(copy - late.spelled[rank].commands.begin());
    EXPECT_NEAR(late.spans[rank][at].endUs, 50 + 7 + 64 / 2.0, 0.01) << rank;
  }
}

TEST(HostsSimulator, KeepsTheNetworkInTheModel) {
  CostModel model = freeModel();
  model.network.rankBytesPerUs = 1.5;
  const Result<CostModel> again = CostModel::decode(model.encode());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->network.latencyUs, 7);
  EXPECT_EQ(again->network.bytesPerUs, 2);
  EXPECT_EQ(again->network.rankBytesPerUs, 1.5);
  std::string bad = model.encode();
  bad.replace(bad.find("\"bytes_per_us\": 2.0"), 19, "\"bytes_per_us\": 0.0");
  EXPECT_THAT(CostModel::decode(bad).status().message(),
              testing::HasSubstr("network.bytes_per_us: expected a number from 0.001"));
}

} // namespace
} // namespace braid::test
