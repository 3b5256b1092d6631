//===- tests/runtime/simulator_test.cpp - predictions with known answers ----------------------===//

#include "api/calibrate/calibration_programs.h"
#include "api/compile/plans.h"
#include "runtime/simulate/launches.h"
#include "runtime/simulate/simulator.h"
#include "tests/support/configured.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace braid {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Plan> plansOf(const std::string &text, const CompileOptions &options = {}) {
  std::unique_ptr<Source> source = parseSource("t.braid", text);
  Result<Compiled> compiled = compile(*source, options);
  EXPECT_TRUE(compiled.isOk()) << compiled.status().message() << source->diags.str();
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  EXPECT_TRUE(plans.isOk()) << source->diags.str();
  return std::move(*plans);
}

/// Numbers that are easily told apart in a sum.
CostModel easyModel() {
  CostModel model;
  OperationCosts eager;
  eager.runUs = 1000;
  eager.eventUs = 3;
  eager.signalUs = 10;
  eager.flightUs = 20;
  eager.awaitUs = 40;
  eager.local = {5, 100, 100};
  eager.pull = {7, 10, 15};
  eager.push = {2, 10, 15};
  OperationCosts graph = eager;
  graph.launchMode = LaunchMode::Graph;
  model.operations = {eager, graph};
  model.add({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 100, .utilisation = 0.75});
  return model;
}

double timeOf(const std::string &text, const CostModel &model,
              LaunchMode launchMode = LaunchMode::Graph) {
  Result<Simulation> simulation = simulate(plansOf(text), model, {launchMode});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  return simulation ? simulation->us : 0;
}

/// What was measured is from when all have come; before that, what spells a collective out.
TEST(Simulator, TakesMessagesForWhatTheyCost) {
  CostModel model = easyModel();
  for (OperationCosts &costs : model.operations)
    costs.signalUs = costs.flightUs = costs.awaitUs = 0;
  auto us = [&](const std::string &text) {
    Result<Simulation> simulation =
        simulate(plansOf(text, {.transport = Transport::Messages}), model, {LaunchMode::Graph});
    EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
    return simulation ? simulation->us : 0;
  };
  const std::string gathers =
      calibration::collectives(2, CollectiveKind::AllGather, 4096, /*count=*/3);
  EXPECT_GT(us(gathers), 1000 + 3 * (2048.0 / 10)) << "as copies of a part";
  model.add(MessageCost{LaunchMode::Graph, CollectiveKind::AllGather, 4096, 50});
  EXPECT_DOUBLE_EQ(us(gathers), 1000 + 3 * 50);
  const std::string groups = calibration::transferChain(2, Protocol::Get, 4096, /*turns=*/2);
  model.add(MessageCost{LaunchMode::Graph, std::nullopt, 4096, 60});
  EXPECT_DOUBLE_EQ(us(groups), 1000 + 2 * 3 + 2 * 60) << "two changes of streams";
}

constexpr const char *kGemms = R"(
program @gemms mesh [0 .. 1) (%A: f32[4, 4], %B: f32[4, 4]) -> (%C: f32[4, 4], %D: f32[4, 4]) {{
  %main = get_current_stream
  matmul %C, %A, %B
  {}
  matmul %D, %A, %B
  {}
}}
)";

TEST(Simulator, AddsWhatFollowsOnOneStream) {
  EXPECT_DOUBLE_EQ(timeOf(fmt::format(kGemms, "", ""), easyModel()), 1000 + 2 * 100);
}

/// In a graph nothing says which of them is first.
TEST(Simulator, SharesTheMachineEvenlyAmongGemmsThatBeginTogether) {
  std::string text = fmt::format(kGemms, "set_current_stream stream(1)",
                                 "set_current_stream %main\n  synchronize stream(1)");
  EXPECT_NEAR(timeOf(text, easyModel()), 1000 + 2 * 75 + 3, 1e-3) << "75 us of the machine each";
  CostModel model = easyModel();
  model.add({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 100, .utilisation = 0.4});
  EXPECT_NEAR(timeOf(text, model), 1000 + 100 + 3, 1e-3) << "there is room for both";
}

/// The model whose GEMMs have a whole machine each, and contend for it.
CostModel contentionModel(double contention) {
  CostModel model = easyModel();
  model.add({.dtype = DType::F32,
             .m = 4,
             .n = 4,
             .k = 4,
             .us = 100,
             .utilisation = 1,
             .contention = contention});
  return model;
}

TEST(Simulator, SlowsDownGemmsThatContend) {
  const std::string both = fmt::format(kGemms, "set_current_stream stream(1)",
                                       "set_current_stream %main\n  synchronize stream(1)");
  EXPECT_NEAR(timeOf(both, contentionModel(1)), 1000 + 2 * 100 + 3, 1e-3);
  EXPECT_NEAR(timeOf(both, contentionModel(1.2)), 1000 + 1.2 * 2 * 100 + 3, 1e-3);
  EXPECT_DOUBLE_EQ(timeOf(fmt::format(kGemms, "", ""), contentionModel(1.2)), 1000 + 2 * 100)
      << "one behind the other";
}

/// As the measurement that says how much they contend has it.
TEST(Simulator, SlowsDownAChainThatIsDealtOut) {
  const PlanMatmul shape = {DType::F32, 4, 4, 4, false, {}, {}, {}, {}};
  CostModel model = contentionModel(1.2);
  for (OperationCosts &costs : model.operations)
    costs.eventUs = 0; // all streams begin together
  for (int streams : {2, 3}) {
    const std::string dealt = calibration::gemms(1, shape, 6, streams);
    EXPECT_NEAR(timeOf(dealt, model), 1000 + 1.2 * 6 * 100, 1e-3) << streams;
  }
}

constexpr const char *kLater = R"(
program @later mesh [0 .. 1) (%A: f32[4, 4], %B: f32[4, 4], %X: f32[1000])
    -> (%C: f32[4, 4], %D: f32[4, 4]) {
  %main = get_current_stream
  matmul %C, %A, %B
  set_current_stream stream(1)
  %y = allocate device f32[1000]
  set %y, %X
  matmul %D, %A, %B
  set_current_stream %main
  synchronize stream(1)
}
)";

TEST(Simulator, LeavesALaterGemmWhatTheFirstDoesNotTake) {
  // The copy ends at 45 us. Then the second GEMM has a quarter of the machine for 55 us, and three
  // quarters of it for what is left of its 75.
  EXPECT_NEAR(timeOf(kLater, easyModel()), 1000 + 100 + (75 - 55 * 0.25) / 0.75 + 3, 1e-3);
}

TEST(Simulator, SlowsDownGemmsFromWhenTheyMeet) {
  // A copy of 4000 bytes ends at 45 us, so 55 are left of the first GEMM. The second has the
  // machine after it, and has met it all the same.
  EXPECT_NEAR(timeOf(kLater, contentionModel(1.2)), 1000 + 45 + 1.2 * 55 + 1.2 * 100 + 3, 1e-3);
  EXPECT_NEAR(timeOf(kLater, contentionModel(1)), 1000 + 2 * 100 + 3, 1e-3);
}

TEST(Simulator, SlowsDownEachGemmByItsOwnContention) {
  CostModel model = contentionModel(1.2);
  model.add({.dtype = DType::F32, .m = 4, .n = 4, .k = 8, .us = 40, .utilisation = 0.25});
  std::vector<Plan> plans = plansOf(kLater);
  plans[0].matmuls[1].k = 8;
  Result<Simulation> simulation = simulate(plans, model, {LaunchMode::Graph});
  ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
  EXPECT_NEAR(simulation->us, 1000 + 45 + 1.2 * 55 + 40 + 3, 1e-3);
}

/// One without rows neither contends nor waits for what runs.
TEST(Simulator, TakesNoTimeForAnEmptyGemm) {
  for (double contention : {1.0, 1.2}) {
    std::vector<Plan> plans = plansOf(kLater);
    plans[0].matmuls[1].m = 0;
    Result<Simulation> simulation =
        simulate(plans, contentionModel(contention), {LaunchMode::Graph});
    ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
    EXPECT_NEAR(simulation->us, 1000 + 100, 1e-3);
    size_t empty = 0;
    for (size_t i = 0; i < plans[0].commands.size(); ++i) {
      const Command &command = plans[0].commands[i];
      if (command.kind == CommandKind::Matmul && command.matmul == 1) {
        ++empty;
        EXPECT_NEAR(simulation->spans[0][i].endUs, 45, 1e-3);
      }
    }
    EXPECT_EQ(empty, 1u);
  }
}

TEST(Simulator, BeginsNothingBeforeItWasIssued) {
  CostModel model = easyModel();
  model.operations[0].issueMatmulUs = 300;
  std::string text = fmt::format(kGemms, "", "");
  EXPECT_DOUBLE_EQ(timeOf(text, model, LaunchMode::Eager), 1000 + 2 * 300 + 100);
  EXPECT_DOUBLE_EQ(timeOf(text, model, LaunchMode::Graph), 1000 + 2 * 100);
}

TEST(Simulator, TakesASumByTheBytesItReadsAndWrites) {
  constexpr const char *kSum = R"(
program @sum mesh [0 .. 1) (%P: f32[3, 100], %b: {0}[100]) -> (%C: {0}[{1}]) {{
  sum %C, %P{2}
}}
)";
  // As a copy of half of 3 * 400 + 400 bytes, of 3 * 400 + 200, and of 3 * 80 + 80.
  EXPECT_NEAR(timeOf(fmt::format(kSum, "f32", 100, ""), easyModel()), 1000 + 5 + 8, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kSum, "bf16", 100, ", %b"), easyModel()), 1000 + 5 + 7, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kSum, "f32", 20, "[30 .. 50]"), easyModel()), 1000 + 5 + 1.6,
              1e-3);
}

constexpr const char *kShift = R"(
program @shift mesh [0 .. 2) (%A: f32[100]) -> () {{
  %all = allocate symmetric f32[2, 100]
  %h = share_mem_handles {0} %all
  %mine = select %all[0]
  %theirs = select %all[1]
  {1}
  {2}
  wait %r
  wait %s
}}
)";

TEST(Simulator, FollowsATransfer) {
  const char *send = "%s = p2p send %mine to (rank - 1) mod 2 via %h";
  const char *receive = "%r = p2p recv %theirs from (rank + 1) mod 2 via %h";
  // Signal, flight, await, copy of 400 bytes, and the same signal back.
  EXPECT_NEAR(timeOf(fmt::format(kShift, "get", send, receive), easyModel()),
              1000 + 70 + 7 + 400.0 / 10 + 70, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kShift, "put", receive, send), easyModel()),
              1000 + 70 + 2 + 400.0 / 10 + 70, 1e-3);
}

/// The GEMM, or its result's way, whichever is longer; nothing is started for a copy.
TEST(Simulator, StoresAtAPeerWhileItMultiplies) {
  const char *text = R"(
program @stored mesh [0 .. 2) (%A: f32[4, 4], %B: f32[4, 4]) -> () {
  %slots = allocate symmetric f32[4, 4]
  %h = share_mem_handles put %slots
  %r = p2p recv %slots from 1 - rank via %h
  %s = p2p send matmul %A, %B : f32[4, 4] to 1 - rank via %h
  wait %r
  wait %s
}
)";
  CostModel model = easyModel();
  EXPECT_NEAR(timeOf(text, model), 1000 + 70 + 100 + 70, 1e-3);
  model.operations[1].push.bytesPerUs = 0.125;
  EXPECT_NEAR(timeOf(text, model), 1000 + 70 + 64 / 0.125 + 70, 1e-3);
}

/// All get blocks of {1} elements from all others, each on a stream of its own; then {4} on
/// the main one.
constexpr const char *kFan = R"(
program @fan mesh [0 .. {0}) ({2}) -> ({3}) {{
  %all = allocate symmetric f32[{0}, {1}]
  %h = share_mem_handles get %all
  %mine = select %all[rank]
  %main = get_current_stream
  for %j in 1 .. {0} {{
    set_current_stream stream(%j)
    synchronize %main
  }}
  for %i in 1 .. {0} {{
    set_current_stream stream(%i)
    %block = select %all[(rank + %i) mod {0}]
    %s = p2p send %mine to (rank - %i) mod {0} via %h
    %r = p2p recv %block from (rank + %i) mod {0} via %h
    wait %r
    wait %s
  }}
  set_current_stream %main{4}
  for %j in 1 .. {0} {{
    synchronize stream(%j)
  }}
}}
)";

TEST(Simulator, SharesALinkBetweenCopies) {
  const std::string text = fmt::format(kFan, 3, 100, "%A: f32[100]", "", "");
  // Two copies leave each rank: each has 7.5 bytes/us of the link instead of the 10 of one alone.
  EXPECT_NEAR(timeOf(text, easyModel()), 1000 + 3 + 70 + 7 + 400 / 7.5 + 70 + 3, 1e-3);
}

constexpr const char *kGroup = R"(
program @group mesh [0 .. 3) (%A: f32[100]) -> () {
  %all = allocate symmetric f32[3, 100]
  %h = share_mem_handles put %all
  %mine = select %all[rank]
  %b1 = select %all[(rank + 1) mod 3]
  %b2 = select %all[(rank + 2) mod 3]
  group {
    %r1 = p2p recv %b1 from (rank + 1) mod 3 via %h
    %s1 = p2p send %mine to (rank - 1) mod 3 via %h
    %r2 = p2p recv %b2 from (rank + 2) mod 3 via %h
    %s2 = p2p send %mine to (rank - 2) mod 3 via %h
  }
  wait %s1
  wait %s2
  wait %r1
  wait %r2
}
)";

/// One model for all transfer modes, to see what they differ in besides numbers.
double timeByMode(TransferMode transferMode, LaunchMode launchMode = LaunchMode::Graph) {
  CostModel model = easyModel();
  for (OperationCosts &costs : model.operations) {
    costs.transferMode = transferMode;
    costs.issueCopyUs = launchMode == LaunchMode::Eager ? 100 : 0;
  }
  Result<Simulation> simulation = simulate(plansOf(kGroup), model, {launchMode, transferMode});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  return simulation ? simulation->us : 0;
}

TEST(Simulator, MakesOneKernelOfCopiesThatStandTogether) {
  // Two signals, a flight, two awaits; the second of which is later by all it takes.
  const double begin = 20 + 10 + 2 * 40;
  // A copy of 400 bytes and a signal, twice, while the first flag flies; the flight of the second.
  const double byEngine = begin + 2 * (2 + 400 / 10.0 + 10) + 40 + 40;
  EXPECT_NEAR(timeByMode({CopyBy::Engine}), 1000 + byEngine, 1e-3);
  // Both at once on the link; two signals together, their flight, and two awaits.
  const double together = begin + 2 + 400 / 7.5;
  EXPECT_NEAR(timeByMode({CopyBy::Kernel}), 1000 + together + 10 + 20 + 2 * 40, 1e-3);
  // A signal by the memory's own means is no part of a kernel, and stands between the copies.
  EXPECT_NEAR(timeByMode({CopyBy::Kernel, SignalBy::Memory}), 1000 + byEngine, 1e-3);
}

/// And so the host issues one.
TEST(Simulator, IssuesCopiesThatStandTogetherOnce) {
  const TransferMode byKernel = {CopyBy::Kernel};
  EXPECT_NEAR(timeByMode(byKernel, LaunchMode::Eager), timeByMode(byKernel), 1e-3)
      << "100 us are over before the copies begin";
  EXPECT_GT(timeByMode({CopyBy::Engine}, LaunchMode::Eager), timeByMode({CopyBy::Engine}) + 10);
}

/// A kernel that copies waits while a GEMM that began before it has the whole machine; an engine
/// needs none. A sum is a kernel in any mode.
TEST(Simulator, LetsKernelsWaitForGemms) {
  constexpr const char *text = R"(
program @beside mesh [0 .. 1) (%A: f32[4, 4], %B: f32[4, 4], %X: f32[2, 1000]) -> (%C: f32[4, 4]) {{
  %y = allocate device {1}
  %main = get_current_stream
  matmul %C, %A, %B
  set_current_stream stream(1)
  {0}
  set_current_stream %main
  synchronize stream(1)
}}
)";
  CostModel model = contentionModel(1);
  auto timeBy = [&](CopyBy copies, const char *command, const char *type) {
    for (OperationCosts &costs : model.operations)
      costs.transferMode = {copies, SignalBy::Default};
    Result<Simulation> simulation = simulate(plansOf(fmt::format(text, command, type)), model,
                                             {LaunchMode::Graph, {copies, SignalBy::Default}});
    EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
    return simulation->us - 1000;
  };
  // 8000 bytes take 80 us, and the GEMM 100.
  EXPECT_NEAR(timeBy(CopyBy::Engine, "set %y, %X", "f32[2, 1000]"), 100, 1e-3);
  EXPECT_NEAR(timeBy(CopyBy::Kernel, "set %y, %X", "f32[2, 1000]"), 100 + 80 + 3, 1e-3);
  EXPECT_NEAR(timeBy(CopyBy::Engine, "sum %y, %X", "f32[1000]"), 100 + 60 + 3, 1e-3);
  for (OperationCosts &costs : model.operations)
    costs.sum = CopyCost{50, 200, 200};
  EXPECT_NEAR(timeBy(CopyBy::Engine, "sum %y, %X", "f32[1000]"), 100 + 30 + 3, 1e-3);
}

/// GEMMs wait for a kernel that began before them.
TEST(Simulator, LetsGemmsWaitForKernels) {
  CostModel model = contentionModel(1);
  for (OperationCosts &costs : model.operations)
    costs.transferMode = {CopyBy::Kernel, SignalBy::Default};
  const std::vector<Plan> plans = plansOf(R"(
program @before mesh [0 .. 1) (%A: f32[4, 4], %B: f32[4, 4], %X: f32[1000]) -> (%C: f32[4, 4]) {
  %y = allocate device f32[1000]
  %z = allocate device f32[10]
  %x = slice %X[0 .. 10]
  %main = get_current_stream
  set_current_stream stream(1)
  set %y, %X
  set_current_stream %main
  set %z, %x
  matmul %C, %A, %B
  synchronize stream(1)
}
)");
  Result<Simulation> simulation =
      simulate(plans, model, {LaunchMode::Graph, {CopyBy::Kernel, SignalBy::Default}});
  ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
  // Both copies share the memory; the GEMM begins when the small one is done, and waits.
  EXPECT_NEAR(simulation->us, 1000 + 5 + (4000 + 40) / 100.0 + 100, 1e-3);
}

double graphOf(const std::string &text, TransferMode mode, std::optional<CopyCost> sum = {}) {
  CostModel model = easyModel();
  for (OperationCosts &costs : model.operations) {
    costs.transferMode = mode;
    costs.sum = sum;
  }
  return simulate(plansOf(text), model, {LaunchMode::Graph, mode})->us;
}

/// A sum of this part and the peer's. `copiesOwn`: the own one is copied to where parts are added.
std::string addedParts(int64_t elements, bool copiesOwn) {
  return fmt::format(R"(
program @added mesh [0 .. 2) (%A: f32[{0}]) -> (%C: f32[{0}]) {{
  %sent = allocate symmetric f32[{0}]
  %parts = allocate symmetric f32[2, {0}]
  %h = share_mem_handles get %sent, %parts
  %mine = select %parts[rank]
  %theirs = select %parts[(rank + 1) mod 2]
  %s = p2p send {1} to (rank + 1) mod 2 via %h
  %r = p2p recv %theirs from (rank + 1) mod 2 via %h
{2}  wait %r
  sum %C, %parts
  wait %s
}}
)",
                     elements, copiesOwn ? "%sent" : "%mine",
                     copiesOwn ? "  set %mine, %sent\n" : "");
}

/// What a kernel copies it adds on its way.
TEST(Simulator, AddsAlongCopiesByKernels) {
  const double copied = 70 + 7 + 400.0 / 10, told = 70;
  const TransferMode byKernel{CopyBy::Kernel, SignalBy::Default};
  EXPECT_NEAR(graphOf(addedParts(100, false), byKernel), 1000 + copied + told, 1e-3);
  EXPECT_NEAR(graphOf(addedParts(100, true), byKernel), 1000 + copied + told, 1e-3);
  EXPECT_NEAR(graphOf(addedParts(100, false), {CopyBy::Engine, SignalBy::Default}),
              1000 + copied + 10 + std::max(5 + 6.0, 60.0), 1e-3);
}

/// Where its signals are memory operations, or parts are no multiples of 16 bytes, it cannot.
TEST(Simulator, AddsBehindCopiesWhereKernelsDo) {
  const CopyCost slow{.fixedUs = 500, .bytesPerUs = 1000, .sharedBytesPerUs = 1000};
  const auto time = [&](int64_t elements, SignalBy signals) {
    return graphOf(addedParts(elements, true), {CopyBy::Kernel, signals}, slow);
  };
  EXPECT_LT(time(100, SignalBy::Default), 1000 + slow.fixedUs);
  EXPECT_GT(time(100, SignalBy::Memory), 1000 + slow.fixedUs);
  EXPECT_GT(time(101, SignalBy::Default), 1000 + slow.fixedUs);
}

/// A transfer by `get` on a stream of its own, while the rank's machine is at work on a GEMM.
constexpr const char *kTransferBesideGemm = R"(
program @beside mesh [0 .. 2) (%A: f32[4, 4], %B: f32[4, 4]) -> (%C: f32[4, 4]) {
  %all = allocate symmetric f32[2, 100]
  %h = share_mem_handles get %all
  %mine = select %all[rank]
  %theirs = select %all[(rank + 1) mod 2]
  %main = get_current_stream
  matmul %C, %A, %B
  set_current_stream stream(1)
  %s = p2p send %mine to (rank + 1) mod 2 via %h
  %r = p2p recv %theirs from (rank + 1) mod 2 via %h
  wait %r
  wait %s
  set_current_stream %main
  synchronize stream(1)
}
)";

double besideGemm(double utilisation, double launchUs, TransferMode mode) {
  CostModel model = easyModel();
  model.add({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 100, .utilisation = utilisation});
  for (OperationCosts &costs : model.operations) {
    costs.transferMode = mode;
    costs.launchUs = launchUs;
  }
  Result<Simulation> simulation =
      simulate(plansOf(kTransferBesideGemm), model, {LaunchMode::Graph, mode});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  return simulation->us - 1000 - 3; // an event
}

/// A kernel that only signals and waits is one launch, and a memory operation is one. A kernel that
/// copies has its own cost.
TEST(Simulator, LaunchesWhatOnlySignals) {
  const double hop = 10 + 20 + 40, copy = 7 + 40;
  EXPECT_NEAR(besideGemm(0.5, 0, {CopyBy::Engine}), hop + copy + hop, 1e-3);
  EXPECT_NEAR(besideGemm(0.5, 100, {CopyBy::Kernel}), hop + copy + hop, 1e-3);
  // It has half of the machine while the GEMM runs, for 100 us.
  EXPECT_NEAR(besideGemm(0.5, 100, {CopyBy::Engine}), 150 + hop + copy + 100 + hop, 1e-3);
  // The flag is there before the await has been launched.
  EXPECT_NEAR(besideGemm(0.5, 100, {CopyBy::Engine, SignalBy::Memory}),
              110 + 100 + 40 + copy + 110 + 100 + 40, 1e-3);
}

/// It takes ten times as long where a GEMM has all of the machine.
TEST(Simulator, LaunchesBesideGemmsThatHaveAllOfTheMachine) {
  EXPECT_NEAR(besideGemm(1, 5, {CopyBy::Engine}), 50 + 70 + 47 + 5 + 70, 1e-3);
}

/// All that reach a rank together, not each: a GEMM that begins behind them has the rest.
TEST(Simulator, TakesATenthForAllCopiesOverALink) {
  const std::string text =
      fmt::format(kFan, 5, 10000, "%A: f32[4, 4], %B: f32[4, 4]", "%C: f32[4, 4]", R"(
  %small = allocate device f32[4, 4]
  for %j in 0 .. 30 {
    set %small, %A
  }
  matmul %C, %A, %B)");
  CostModel model = easyModel();
  model.add({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 900, .utilisation = 1});
  for (OperationCosts &costs : model.operations)
    costs.transferMode = {CopyBy::Kernel};
  const std::vector<Plan> plans = plansOf(text);
  Result<Simulation> simulation = simulate(plans, model, {LaunchMode::Graph, {CopyBy::Kernel}});
  ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
  const auto &commands = plans.front().commands;
  const auto gemm = llvm::find_if(
      commands, [](const Command &command) { return command.kind == CommandKind::Matmul; });
  ASSERT_NE(gemm, commands.end());
  const SimulatedSpan &span = simulation->spans.front()[size_t(gemm - commands.begin())];
  EXPECT_NEAR(span.endUs - span.beginUs, 1000, 1e-3) << "900 us of nine tenths";
}

/// A tenth of the machine keeps a link busy. With less a copy by a kernel is slower.
TEST(Simulator, KeepsALinkBusyWithAFewProcessors) {
  const double alone = 70 + 47 + 70;
  EXPECT_NEAR(besideGemm(0.9, 0, {CopyBy::Kernel}), alone, 1e-3);
  // From 77 us on, when its 40 us begin, until the GEMM is over at 100.
  EXPECT_NEAR(besideGemm(0.95, 0, {CopyBy::Kernel}), alone + 23 / 2.0, 1e-3);
}

/// Of commands of one stream, which of them have to be launched.
std::vector<bool> launchesOf(std::initializer_list<CommandKind> kinds, TransferMode mode,
                             int64_t sumBytes = 1024) {
  Plan plan;
  plan.streams.emplace_back();
  plan.sums.emplace_back();
  plan.sums.back().count = 2;
  plan.sums.back().stride = sumBytes;
  plan.sums.back().parts = {0, 0, 2 * sumBytes};
  plan.sums.back().dst = {1, 0, sumBytes};
  for (CommandKind kind : kinds) {
    plan.commands.emplace_back();
    plan.commands.back().kind = kind;
    plan.commands.back().sum = 0;
  }
  return simulator::findLaunches(plan, mode);
}

/// As the device cuts batches into kernels: signals, awaits, copies with their signals, awaits.
TEST(Simulator, FindsKernelsThatOnlySignal) {
  using enum CommandKind;
  const TransferMode byKernel{CopyBy::Kernel};
  EXPECT_THAT(launchesOf({Signal, Await, Copy, Signal, Await}, byKernel), Each(false));
  EXPECT_THAT(launchesOf({Matmul, Signal, Await, Matmul}, byKernel),
              ElementsAre(false, true, false, false));
  EXPECT_THAT(launchesOf({Copy, Await, Signal}, byKernel), ElementsAre(false, false, true))
      << "behind awaits that follow copies nothing else comes";
  EXPECT_THAT(launchesOf({Matmul, Await, Record, Signal}, byKernel),
              ElementsAre(false, true, false, true));
}

TEST(Simulator, FindsKernelsThatAddBesideSignals) {
  using enum CommandKind;
  const TransferMode byKernel{CopyBy::Kernel};
  const auto kinds = {Matmul, Signal, Await, Sum, Await};
  EXPECT_THAT(launchesOf(kinds, byKernel), ElementsAre(false, false, false, false, true));
  EXPECT_THAT(launchesOf(kinds, byKernel, 4 << 20), ElementsAre(false, true, false, false, true))
      << "a large sum is a kernel of its own";
  EXPECT_THAT(launchesOf({Copy, Await, Sum, Await}, byKernel),
              ElementsAre(false, false, false, true));
}

/// How many copies of rank 0 are of a kernel that has added before.
int64_t copiesGoingOn(const std::string &schedule, int64_t columns, TransferMode mode) {
  const std::string text = fmt::format("fusion @f(D = 4, N = {}) {{\n  mesh [0 .. D)\n"
                                       "  %A = input bf16[8, DIDx{{D}}, 16]\n"
                                       "  %B = input bf16[DIDx{{D}}, 16, N]\n"
                                       "  %C = matmul %A, %B : bf16[8, N]\n  output %C\n}}\n",
                                       columns);
  const std::vector<Plan> plans = plansOf(text, {.schedule = test::configured(schedule)});
  const std::vector<bool> found = simulator::findGoingOn(plans[0], mode);
  return std::count(found.begin(), found.end(), true);
}

/// As backends/cuda/launch_filler.h makes one kernel of both shots.
TEST(Simulator, FindsSecondShotsOfTheSameKernel) {
  const std::string pushed = "bulk;reduction=two-shot;second-shot=put";
  const TransferMode byKernel{CopyBy::Kernel};
  EXPECT_EQ(copiesGoingOn(pushed, 8, byKernel), 6) << "to three ranks, and what they have pushed";
  EXPECT_EQ(copiesGoingOn(pushed, 8, {CopyBy::Kernel, SignalBy::Memory}), 0);
  EXPECT_EQ(copiesGoingOn(pushed, 8, {CopyBy::Engine}), 0);
  EXPECT_EQ(copiesGoingOn(pushed, 3, byKernel), 0) << "nothing is added along";
  EXPECT_EQ(copiesGoingOn("bulk;reduction=two-shot", 8, byKernel), 0);
}

/// Between copies by engines they take what was measured there.
TEST(Simulator, LaunchesNothingAmongCopiesByEngines) {
  using enum CommandKind;
  const auto kinds = {Signal, Await, Copy, Signal, Record, WaitEvent, Await, Copy, Await, Matmul};
  for (SignalBy signals : {SignalBy::Memory, SignalBy::Default}) {
    const std::vector<bool> launches = launchesOf(kinds, {CopyBy::Engine, signals});
    EXPECT_TRUE(launches[0]);
    EXPECT_EQ(launches[1], signals == SignalBy::Memory) << "one kernel does both";
    EXPECT_FALSE(launches[3] || launches[6]);
    EXPECT_TRUE(launches[8]) << "a GEMM is behind it";
  }
}

TEST(Simulator, ReportsADeadlock) {
  std::string text =
      fmt::format(kShift, "get", "%r = p2p recv %theirs from (rank + 1) mod 2 via %h",
                  "%s = p2p send %mine to (rank - 1) mod 2 via %h");
  Result<Simulation> simulation = simulate(plansOf(text), easyModel(), {LaunchMode::Eager});
  EXPECT_EQ(simulation.status().code(), StatusCode::TimedOut);
  EXPECT_THAT(simulation.status().message(), HasSubstr("rank 1 waits in \"%r = p2p recv"));
}

TEST(Simulator, SaysWhatTheModelLacks) {
  CostModel model = easyModel();
  std::vector<Plan> plans = plansOf(fmt::format(kGemms, "", ""));
  EXPECT_THAT(simulate(plans, model, {LaunchMode::Eager, {CopyBy::Kernel}}).status().message(),
              HasSubstr("knows no operations issued as eager with copies=kernel, signals=default"));
  model.gemms.clear();
  EXPECT_EQ(simulate(plans, model, {}).status().message(), "the cost model knows no GEMM of f32");
}

constexpr const char *kFusion = R"(
fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 96, 16]
  %B = input f32[16, 32]
  %C = matmul %A, %B : f32[Stream{D}, 96, 32]
  output %C
}
)";

std::vector<CompileOptions> manyOptions() {
  std::vector<CompileOptions> all;
  for (const Preset &preset : test::pairPresets())
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      for (int64_t ranks : {1, 2, 3, 8})
        for (int64_t chunks : {1, 5})
          for (int64_t streams : {1, 2, 4})
            all.push_back({.ranks = ranks,
                           .schedule = {Configuration(preset.fields)
                                            .set(Knob::Protocol, protocol)
                                            .set(Knob::Streams, streams)
                                            .set(Knob::Chunks, chunks)}});
  return all;
}

/// Every command of a lowered program begins and ends, in stream order, and once more the same.
TEST(Simulator, EndsWithEverythingDone) {
  for (const CompileOptions &options : manyOptions()) {
    std::vector<Plan> plans = plansOf(kFusion, options);
    Result<Simulation> once = simulate(plans, easyModel(), {LaunchMode::Eager});
    ASSERT_TRUE(once.isOk()) << once.status().message();
    EXPECT_EQ(simulate(plans, easyModel(), {LaunchMode::Eager})->us, once->us);
    CostModel byKernel = easyModel();
    byKernel.operations[0].transferMode = {CopyBy::Kernel};
    Result<Simulation> other = simulate(plans, byKernel, {LaunchMode::Eager, {CopyBy::Kernel}});
    ASSERT_TRUE(other.isOk()) << other.status().message();
    for (const Plan &plan : plans) {
      std::vector<double> ends(plan.streams.size(), 0);
      for (size_t i = 0; i < plan.commands.size(); ++i) {
        const SimulatedSpan &span = once->spans[static_cast<size_t>(plan.rank)][i];
        double &end = ends[plan.commands[i].stream];
        EXPECT_LE(end, span.beginUs + 1e-3);
        EXPECT_LE(span.beginUs, span.endUs);
        EXPECT_LE(span.endUs, once->us);
        end = span.endUs;
      }
    }
  }
}

/// Choosing looks at hundreds of candidates. The bound is loose: other work shares the machine.
TEST(Simulator, TakesAboutAMillisecondForEightRanks) {
  std::vector<Plan> plans =
      plansOf(kFusion, {.ranks = 8, .schedule = test::configured("chunks=4")});
  const CostModel model = easyModel();
  auto start = std::chrono::steady_clock::now();
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i)
    ASSERT_TRUE(simulate(plans, model, {LaunchMode::Eager}).isOk());
  double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
      kTimes;
  RecordProperty("microseconds", std::to_string(us));
  EXPECT_LT(us, 5000);
}

//===- Runs that follow one another ----------------------------------------------------------===//

Simulation burstOf(const std::string &text, const CostModel &model,
                   LaunchMode launchMode = LaunchMode::Graph) {
  Result<Simulation> simulation =
      simulate(plansOf(text), model, {.launchMode = launchMode, .what = Simulated::Both});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  return simulation ? *simulation : Simulation{};
}

CostModel burstModel() {
  CostModel model = easyModel();
  for (OperationCosts &costs : model.operations) {
    costs.apartUs = 500;
    costs.gapUs = 9;
    costs.forkUs = 90;
  }
  return model;
}

/// Nobody waits for the host, or for others to begin, between them.
TEST(Simulator, PredictsRunsThatFollowOneAnother) {
  const Simulation one = burstOf(fmt::format(kGemms, "", ""), burstModel());
  EXPECT_DOUBLE_EQ(one.us, 1000 + 200) << "nobody waits for another rank";
  EXPECT_DOUBLE_EQ(*one.burstUs, 9 + 200);
  const char *send = "%s = p2p send %mine to (rank - 1) mod 2 via %h";
  const char *receive = "%r = p2p recv %theirs from (rank + 1) mod 2 via %h";
  const Simulation transfer = burstOf(fmt::format(kShift, "get", send, receive), burstModel());
  EXPECT_NEAR(transfer.us, 1000 + 500 + 70 + 7 + 40 + 70, 1e-3);
  EXPECT_NEAR(*transfer.burstUs, 9 + 70 + 7 + 40 + 70, 1e-3);
  const Result<Simulation> unasked =
      simulate(plansOf(fmt::format(kGemms, "", "")), burstModel(), {LaunchMode::Graph});
  EXPECT_FALSE(unasked->burstUs);
}

/// Where two streams begin at once, and not where the second is behind the first.
TEST(Simulator, TakesLongerBetweenRunsThatFork) {
  const char *join = "set_current_stream %main\n  synchronize stream(1)";
  const Simulation forked =
      burstOf(fmt::format(kGemms, "set_current_stream stream(1)", join), burstModel());
  EXPECT_NEAR(*forked.burstUs - (forked.us - 1000), 99, 1e-3);
  const Simulation behind = burstOf(
      fmt::format(kGemms, "set_current_stream stream(1)\n  synchronize %main", join), burstModel());
  EXPECT_NEAR(*behind.burstUs - (behind.us - 1000), 9, 1e-3);
}

/// A rank that has less to do waits for the other one in each run, and no run takes longer for it.
TEST(Simulator, CouplesRanksOfABurstByTheirSignals) {
  const Simulation uneven = burstOf(R"(
program @uneven mesh [0 .. 2) (%A: f32[100], %X: f32[1000]) -> () {
  %all = allocate symmetric f32[2, 100]
  %y = allocate device f32[1000]
  %h = share_mem_handles get %all
  %mine = select %all[0]
  %theirs = select %all[1]
  if rank == 0 {
    set %y, %X
  }
  %s = p2p send %mine to (rank - 1) mod 2 via %h
  %r = p2p recv %theirs from (rank + 1) mod 2 via %h
  wait %r
  wait %s
}
)",
                                    burstModel());
  const double copy = 5 + 4000 / 100.0;
  EXPECT_NEAR(uneven.us, 1000 + 500 + copy + 70 + 7 + 40 + 70, 1e-3);
  // The last to end is rank 1, which waits for what rank 0 has to say; rank 0 goes on meanwhile.
  EXPECT_LE(*uneven.burstUs, 9 + copy + 70 + 7 + 40 + 70 + 1e-3);
  EXPECT_GE(*uneven.burstUs, 9 + copy + 70);
}

/// The host issues one run behind the other, as fast as it can.
TEST(Simulator, IssuesRunsOneBehindTheOther) {
  CostModel model = burstModel();
  for (OperationCosts &costs : model.operations)
    costs.issueMatmulUs = 300;
  const std::string text = fmt::format(kGemms, "", "");
  EXPECT_NEAR(*burstOf(text, model, LaunchMode::Eager).burstUs, 2 * 300, 1e-3);
  for (OperationCosts &costs : model.operations)
    costs.issueMatmulUs = 30;
  EXPECT_NEAR(*burstOf(text, model, LaunchMode::Eager).burstUs, 9 + 200, 1e-3);
}

//===- Power ---------------------------------------------------------------------------------===//

CostModel poweredModel() {
  CostModel model = contentionModel(1);
  model.power = {.idle = 0.2, .copy = 0.25, .boost = 1.2, .restUs = 0};
  return model;
}

constexpr const char *kRested = R"(
program @rested mesh [0 .. 1) (%A: f32[4, 4], %B: f32[4, 4], %X: f32[{1}]) -> (%C: f32[4, 4]) {{
  %y = allocate device f32[{1}]
  %main = get_current_stream
  {0}
  matmul %C, %A, %B
  {2}
}}
)";

/// GEMMs in a row were measured as they are; where they rest, they leave power for a higher clock.
TEST(Simulator, HasAHigherClockWhereGemmsRest) {
  CostModel model = poweredModel();
  for (OperationCosts &costs : model.operations)
    costs.runUs = 0;
  EXPECT_NEAR(timeOf(fmt::format(kGemms, "", ""), model), 200, 0.1);
  // 25 us of a copy before 100 of a GEMM. At clock c: 100 c + 0.2 (T - 100 / c) + 0.25 * 20 = T.
  const double us = timeOf(fmt::format(kRested, "set %y, %X", 500, ""), model);
  const double clock = 100 / (us - 25);
  EXPECT_NEAR(100 * clock + 0.2 * 25 + 0.25 * 20, us, 0.3);
  EXPECT_GT(clock, 1.05);
  // No higher than it can be.
  EXPECT_NEAR(timeOf(fmt::format(kRested, "set %y, %X", 5000, ""), model), 205 + 100 / 1.2, 0.1);
  model.power.restUs = 500; // before each run
  EXPECT_NEAR(timeOf(fmt::format(kGemms, "", ""), model), 200 / 1.2, 0.1);
}

/// And a lower one beside copies, which take power as well.
TEST(Simulator, HasALowerClockBesideCopies) {
  CostModel model = poweredModel();
  for (OperationCosts &costs : model.operations)
    costs.runUs = costs.eventUs = 0;
  const double us = timeOf(
      fmt::format(kRested, "set_current_stream stream(1)\n  set %y, %X\n  set_current_stream %main",
                  1000, "synchronize stream(1)"),
      model);
  const double clock = 100 / us;
  EXPECT_NEAR(100 * clock + 0.25 * 40, us, 0.3);
}

/// What has half of the best rate does not take all the power.
TEST(Simulator, LeavesGemmsAloneThatPowerDoesNotLimit) {
  CostModel model = poweredModel();
  model.add({.dtype = DType::F32, .m = 8, .n = 4, .k = 4, .us = 100});
  model.power.restUs = 1000;
  EXPECT_DOUBLE_EQ(timeOf(fmt::format(kGemms, "", ""), model), 1000 + 200);
}

} // namespace
} // namespace braid
