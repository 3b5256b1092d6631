//===- tests/hosts/simulator_test.cpp - the cost of the network -------------------------------===//

#include "runtime/plan/spell_out.h"
#include "runtime/simulate/simulator.h"
#include "tests/hosts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// Returns a model in which only GEMMs and the network take time.
CostModel freeModel() {
  CostModel model;
  OperationCosts costs;
  for (CopyCost *copy : {&costs.local, &costs.pull, &costs.push})
    *copy = {0, 1e12};
  model.add(costs);
  model.gemms.push_back({.dtype = DType::F32, .m = 1, .n = 1, .k = 1, .us = 0});
  model.network = {.latencyUs = 7, .bytesPerUs = 2};
  return model;
}

/// Returns a program in which each rank sends `count` floats to the rank with the same local number
/// on the other host.
std::string crossing(int64_t ranks, int64_t count) {
  const std::string n = std::to_string(ranks), half = std::to_string(ranks / 2),
                    c = std::to_string(count);
  return "program @p mesh [0 .. " + n + ") of " + half + " (%A: f32[" + c + "]) -> (%C: f32[" + c +
         "]) {\n  %a = allocate symmetric f32[" + c + "]\n  %h = share_mem_handles get %a\n" +
         "  set %a, %A\n  group {\n    %s = p2p send %a to (rank + " + half + ") mod " + n +
         " via %h\n    %r = p2p recv %C from (rank + " + half + ") mod " + n +
         " via %h\n  }\n  wait %r\n  wait %s\n}\n";
}

Simulation simulated(const Planned &made, const CostModel &model) {
  Result<Simulation> result = simulate(made.plans, model, {});
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result ? std::move(*result) : Simulation();
}

TEST(HostsSimulator, TakesTheLatencyAndTheBytes) {
  const Simulation one = simulated(planned(crossing(2, 100)), freeModel());
  EXPECT_NEAR(one.us, 7 + 400 / 2.0, 0.01);
}

TEST(HostsSimulator, SharesTheNetworkOfAHost) {
  const Simulation three = simulated(planned(crossing(6, 100)), freeModel());
  EXPECT_NEAR(three.us, 7 + 3 * 400 / 2.0, 0.01);
}

TEST(HostsSimulator, SharesTheNetworkOfARank) {
  CostModel model = freeModel();
  model.network = {.latencyUs = 7, .bytesPerUs = 6, .rankBytesPerUs = 1};
  EXPECT_NEAR(simulated(planned(crossing(2, 100)), model).us, 7 + 400 / 1.0, 0.01);
  EXPECT_NEAR(simulated(planned(crossing(6, 100)), model).us, 7 + 400 / 1.0, 0.01);
  model.network.bytesPerUs = 2;
  EXPECT_NEAR(simulated(planned(crossing(6, 100)), model).us, 7 + 3 * 400 / 2.0, 0.01);
}

/// Returns the number of bytes that each host sends to other hosts in one run. Counts the copies
/// that replace messages and collectives after spellOutData().
std::vector<int64_t> bytesSentByHosts(llvm::ArrayRef<Plan> plans) {
  std::vector<int64_t> sent(static_cast<size_t>(plans.front().hosts()), 0);
  for (const Plan &plan : spellOutData(plans))
    for (const Command &command : plan.commands)
      if (command.kind == CommandKind::Copy && command.endpoint != kNone)
        if (const int64_t sender = plan.endpoints[command.endpoint].peer; !plan.isSameHost(sender))
          sent[static_cast<size_t>(plan.hostOf(sender))] += command.dst.bytes;
  return sent;
}

/// A ring sends each block over the network once. With `pairwise`, a block is sent separately to
/// each rank on the other host.
TEST(HostsSimulator, CountsWhatAGatherSends) {
  const int64_t block = 4 * 5 * 4;
  const auto sent = [](const char *schedule) {
    return bytesSentByHosts(planned(gatherOf(6, 3), schedule).plans);
  };
  EXPECT_THAT(sent("pairwise"), testing::ElementsAre(9 * block, 9 * block));
  EXPECT_THAT(sent("ring"), testing::ElementsAre(5 * block, 5 * block));
  EXPECT_THAT(sent("collective"), testing::ElementsAre(9 * block, 9 * block));
  EXPECT_LT(simulated(planned(gatherOf(6, 3), "ring"), freeModel()).us,
            simulated(planned(gatherOf(6, 3), "pairwise"), freeModel()).us);
}

/// The data that rank 0 sends to rank 1 is ready at once, but the groups of both ranks also
/// exchange messages with rank 2, which is late.
TEST(HostsSimulator, WaitsUntilAllOfAWholeHaveCome) {
  CostModel model = freeModel();
  model.gemms.push_back({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 50});
  const Simulation late = simulated(planned(R"(
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

} // namespace
} // namespace braid::test
