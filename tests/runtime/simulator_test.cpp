//===- tests/runtime/simulator_test.cpp - predictions with known answers ----------------------===//

#include "api/calibrate/calibration_programs.h"
#include "runtime/simulate/simulator.h"
#include "tests/support/checked.h"
#include "tests/support/configured.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

std::vector<Plan> plansOf(const std::string &text, const CompileOptions &options = {}) {
  return test::planned(text, "", options).plans;
}

/// Returns a cost model whose costs are easy to tell apart in a sum.
CostModel easyModel(TransferMode transferMode = {}) {
  CostModel model;
  OperationCosts eager;
  eager.transferMode = transferMode;
  eager.runUs = 1000;
  eager.signalUs = 70;
  eager.local = {5, 100};
  eager.pull = {7, 10};
  eager.push = {2, 10};
  OperationCosts graph = eager;
  graph.launchMode = LaunchMode::Graph;
  model.operations = {eager, graph};
  model.gemms.push_back({.dtype = DType::F32, .m = 4, .n = 4, .k = 4, .us = 100});
  return model;
}

Simulation simulated(llvm::ArrayRef<Plan> plans, const CostModel &model,
                     LaunchMode launchMode = LaunchMode::Graph) {
  Result<Simulation> simulation = simulate(
      plans, model, {.launchMode = launchMode, .transferMode = model.operations[0].transferMode});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  return simulation ? std::move(*simulation) : Simulation();
}

/// Returns the time of a single run, without the fixed cost of a run.
double timeOf(const std::string &text, const CostModel &model,
              LaunchMode launchMode = LaunchMode::Graph) {
  return simulated(plansOf(text), model, launchMode).us - model.operations[0].runUs;
}

/// A message starts when all ranks have reached it. It takes a fixed time plus a time proportional
/// to its size.
TEST(Simulator, TakesAMessageByItsBytes) {
  CostModel model = easyModel();
  model.operations[1].message = {50, 10};
  auto us = [&](const std::string &text) {
    return simulated(plansOf(text, {.transport = Transport::Messages}), model).us - 1000;
  };
  const std::string groups = calibration::transferChain(2, Protocol::Get, 4096, /*turns=*/2);
  EXPECT_NEAR(us(groups), 2 * (50 + 4096 / 10.0), 1e-3);
  const auto collective = [](const char *call, int source, int destination) {
    return fmt::format("program @p mesh [0 .. 4) () -> () {{\n"
                       "  %x = allocate device f32[{}]\n  %y = allocate device f32[{}]\n"
                       "  %c = collective {} %y, %x\n  wait %c\n}}\n",
                       source, destination, call);
  };
  EXPECT_NEAR(us(collective("allgather", 100, 400)), 50 + 1200 / 10.0, 1e-3);
  EXPECT_NEAR(us(collective("reduce_scatter sum", 400, 100)), 50 + 1200 / 10.0, 1e-3);
  EXPECT_NEAR(us(collective("allreduce sum", 400, 400)), 50 + 2400 / 10.0, 1e-3);
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

TEST(Simulator, AddsGemmsOfOneStream) {
  EXPECT_DOUBLE_EQ(timeOf(fmt::format(kGemms, "", ""), easyModel()), 2 * 100);
}

TEST(Simulator, MakesGemmsOfTwoStreamsTakeTurns) {
  const std::string text = fmt::format(kGemms, "set_current_stream stream(1)",
                                       "set_current_stream %main\n  synchronize stream(1)");
  EXPECT_NEAR(timeOf(text, easyModel()), 200, 1e-3);
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

TEST(Simulator, TakesNoTimeForAnEmptyGemm) {
  const CostModel model = easyModel();
  std::vector<Plan> plans = plansOf(kLater);
  plans[0].matmuls[1].m = 0;
  const Simulation simulation = simulated(plans, model);
  EXPECT_NEAR(simulation.us, 1000 + 100, 1e-3);
  for (size_t i = 0; i < plans[0].commands.size(); ++i) {
    const Command &command = plans[0].commands[i];
    if (command.kind == CommandKind::Matmul && command.matmul == 1) {
      EXPECT_NEAR(simulation.spans[0][i].endUs, 45, 1e-3) << "waits for nothing";
    }
  }
}

TEST(Simulator, BeginsNothingBeforeItWasIssued) {
  CostModel model = easyModel();
  model.operations[0].issueUs = 300;
  const std::string text = fmt::format(kGemms, "", "");
  EXPECT_DOUBLE_EQ(timeOf(text, model, LaunchMode::Eager), 2 * 300 + 100);
  EXPECT_DOUBLE_EQ(timeOf(text, model, LaunchMode::Graph), 2 * 100);
}

TEST(Simulator, TakesASumByTheBytesItReadsAndWrites) {
  constexpr const char *kSum = R"(
program @sum mesh [0 .. 1) (%P: f32[3, 100], %b: {0}[100]) -> (%C: {0}[{1}]) {{
  sum %C, %P{2}
}}
)";
  CostModel model = easyModel();
  // Each sum costs as much as a copy of half of 3 * 400 + 400, 3 * 400 + 200, or 3 * 80 + 80 bytes.
  EXPECT_NEAR(timeOf(fmt::format(kSum, "f32", 100, ""), model), 5 + 8, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kSum, "bf16", 100, ", %b"), model), 5 + 7, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kSum, "f32", 20, "[30 .. 50]"), model), 5 + 1.6, 1e-3);
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

constexpr const char *kSend = "%s = p2p send %mine to (rank - 1) mod 2 via %h",
                     *kReceive = "%r = p2p recv %theirs from (rank + 1) mod 2 via %h";

TEST(Simulator, FollowsATransfer) {
  // The transfer consists of a signal, a copy of 400 bytes, and a signal in return.
  EXPECT_NEAR(timeOf(fmt::format(kShift, "get", kSend, kReceive), easyModel()),
              70 + 7 + 400.0 / 10 + 70, 1e-3);
  EXPECT_NEAR(timeOf(fmt::format(kShift, "put", kReceive, kSend), easyModel()),
              70 + 2 + 400.0 / 10 + 70, 1e-3);
}

/// The GEMM takes as long as its arithmetic or the transfer, whichever is longer, without a copy.
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
  EXPECT_NEAR(timeOf(text, model), 70 + 100 + 70, 1e-3);
  model.operations[1].push.bytesPerUs = 0.125;
  EXPECT_NEAR(timeOf(text, model), 70 + 64 / 0.125 + 70, 1e-3);
}

/// Each of three ranks receives the blocks of the other two ranks on two separate streams.
constexpr const char *kFan = R"(
program @fan mesh [0 .. 3) (%A: f32[100]) -> () {
  %all = allocate symmetric f32[3, 100]
  %h = share_mem_handles get %all
  %mine = select %all[rank]
  %main = get_current_stream
  for %j in 1 .. 3 {
    set_current_stream stream(%j)
    synchronize %main
  }
  for %i in 1 .. 3 {
    set_current_stream stream(%i)
    %block = select %all[(rank + %i) mod 3]
    %s = p2p send %mine to (rank - %i) mod 3 via %h
    %r = p2p recv %block from (rank + %i) mod 3 via %h
    wait %r
    wait %s
  }
  set_current_stream %main
  for %j in 1 .. 3 {
    synchronize stream(%j)
  }
}
)";

TEST(Simulator, SharesALinkBetweenCopies) {
  // Two copies leave each rank, so each copy uses half of the link bandwidth.
  EXPECT_NEAR(timeOf(kFan, easyModel()), 70 + 7 + 400 / 5.0 + 70, 1e-3);
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

TEST(Simulator, MakesOneKernelOfCopiesThatStandTogether) {
  // Two copies of 400 bytes run between two signals, one in each direction. Engines execute copies
  // one by one, whereas a kernel executes both concurrently. A signal that uses a memory operation
  // separates the copies.
  const double byEngine = 2 * (2 + 400 / 10.0), together = 2 + 400 / 5.0;
  EXPECT_NEAR(timeOf(kGroup, easyModel({CopyBy::Engine})), 140 + byEngine, 1e-3);
  EXPECT_NEAR(timeOf(kGroup, easyModel({CopyBy::Kernel})), 140 + together, 1e-3);
  EXPECT_NEAR(timeOf(kGroup, easyModel({CopyBy::Kernel, SignalBy::Memory})), 140 + byEngine, 1e-3);
}

/// Kernel copies let the host issue one kernel instead of two copies.
TEST(Simulator, IssuesCopiesThatStandTogetherOnce) {
  const auto slower = [](CopyBy copies) {
    CostModel model = easyModel({copies});
    model.operations[0].issueUs = 100;
    return timeOf(kGroup, model, LaunchMode::Eager) - timeOf(kGroup, model);
  };
  EXPECT_GT(slower(CopyBy::Engine), slower(CopyBy::Kernel) + 50);
}

/// A kernel copy waits while an earlier GEMM uses the whole GPU; a copy that uses a copy engine
/// does not. A sum always uses a kernel.
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
  auto timeBy = [&](CopyBy copies, const char *command, const char *type) {
    return timeOf(fmt::format(text, command, type), easyModel({copies}));
  };
  // The copy of 8000 bytes takes 80 us, and the GEMM takes 100 us.
  EXPECT_NEAR(timeBy(CopyBy::Engine, "set %y, %X", "f32[2, 1000]"), 100, 1e-3);
  EXPECT_NEAR(timeBy(CopyBy::Kernel, "set %y, %X", "f32[2, 1000]"), 100 + 80, 1e-3);
  EXPECT_NEAR(timeBy(CopyBy::Engine, "sum %y, %X", "f32[1000]"), 100 + 60, 1e-3);
}

/// A GEMM waits for a kernel that started earlier.
TEST(Simulator, LetsGemmsWaitForKernels) {
  const std::string text = R"(
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
)";
  // The copies run one after the other; the GEMM starts after both.
  EXPECT_NEAR(timeOf(text, easyModel({CopyBy::Kernel})), 5 + (4000 + 40) / 100.0 + 100, 1e-3);
}

/// Returns a sum of two partial results. If `copiesOwn`, the local one is first copied to %parts.
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

/// A kernel adds while it copies, unless signals use memory operations or the sizes of the parts
/// are not multiples of 16 bytes.
TEST(Simulator, AddsOnTheWayWhereKernelsDo) {
  const auto time = [&](int64_t elements, bool copiesOwn, TransferMode mode) {
    CostModel model = easyModel(mode);
    for (OperationCosts &costs : model.operations)
      costs.local = CopyCost{500, 1000};
    return timeOf(addedParts(elements, copiesOwn), model);
  };
  const double copied = 70 + 7 + 400.0 / 10, told = 70, summed = 500 + 0.6;
  EXPECT_NEAR(time(100, false, {CopyBy::Kernel}), copied + told, 1e-3);
  EXPECT_NEAR(time(100, true, {CopyBy::Kernel}), 70 + 500 + 400.0 / 10 + told, 1e-3);
  EXPECT_NEAR(time(100, false, {CopyBy::Engine}), copied + std::max(summed, told), 1e-3);
  EXPECT_GT(time(100, true, {CopyBy::Kernel, SignalBy::Memory}), 500 + summed);
  EXPECT_GT(time(101, true, {CopyBy::Kernel}), 500 + summed);
}

/// The kernel that adds also executes the copies of the second shot, without another launch.
TEST(Simulator, GoesOnInTheKernelThatAdds) {
  const std::vector<Plan> plans =
      plansOf("fusion @f(D = 4) {\n  mesh [0 .. D)\n  %A = input f32[8, DIDx{D}, 16]\n"
              "  %B = input f32[DIDx{D}, 16, 8]\n  %C = matmul %A, %B : f32[8, 8]\n"
              "  output %C\n}\n",
              {.schedule = test::configured("bulk;reduction=two-shot;second-shot=put")});
  for (const auto &[mode, isLaunched] :
       {std::pair(TransferMode{CopyBy::Kernel}, false),
        std::pair(TransferMode{CopyBy::Kernel, SignalBy::Memory}, true),
        std::pair(TransferMode{CopyBy::Engine}, true)}) {
    CostModel model = easyModel(mode);
    for (OperationCosts &costs : model.operations)
      costs.push.fixedUs = 5000;
    EXPECT_EQ(simulated(plans, model).us > 5000, isLaunched) << str(mode);
  }
}

TEST(Simulator, ReportsADeadlock) {
  const std::string text = fmt::format(kShift, "get", kReceive, kSend);
  Result<Simulation> simulation = simulate(plansOf(text), easyModel(), {LaunchMode::Eager});
  EXPECT_EQ(simulation.status().code(), StatusCode::TimedOut);
  EXPECT_THAT(simulation.status().message(), HasSubstr("rank 1 is waiting in \"%r = p2p recv"));
}

TEST(Simulator, SaysWhatTheModelLacks) {
  CostModel model = easyModel();
  std::vector<Plan> plans = plansOf(fmt::format(kGemms, "", ""));
  EXPECT_THAT(simulate(plans, model, {LaunchMode::Eager, {CopyBy::Kernel}}).status().message(),
              HasSubstr("has no costs for launch mode eager with copies=kernel, signals=default"));
  model.gemms.clear();
  EXPECT_EQ(simulate(plans, model, {}).status().message(),
            "the cost model has no GEMM of type f32");
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

/// Every command of a lowered program starts and ends in stream order, at reproducible times.
TEST(Simulator, EndsWithEverythingDone) {
  for (const CompileOptions &options : manyOptions())
    for (CopyBy copies : {CopyBy::Default, CopyBy::Kernel}) {
      const std::vector<Plan> plans = plansOf(kFusion, options);
      const CostModel model = easyModel({copies});
      const Simulation once = simulated(plans, model, LaunchMode::Eager);
      EXPECT_EQ(simulated(plans, model, LaunchMode::Eager).us, once.us);
      for (const Plan &plan : plans) {
        std::vector<double> ends(plan.streams.size(), 0);
        for (size_t i = 0; i < plan.commands.size(); ++i) {
          const SimulatedSpan &span = once.spans[static_cast<size_t>(plan.rank)][i];
          double &end = ends[plan.commands[i].stream];
          const bool isInOrder = copies == CopyBy::Default; // copies by one kernel start together
          EXPECT_LE(isInOrder ? end : 0, span.beginUs + 1e-3);
          EXPECT_LE(span.beginUs, span.endUs);
          EXPECT_LE(span.endUs, once.us);
          end = span.endUs;
        }
      }
    }
}

/// Runs in a burst do not wait for the host. Each additional stream costs a launch.
TEST(Simulator, PredictsRunsThatFollowOneAnother) {
  CostModel model = easyModel();
  const Simulation one = simulated(plansOf(fmt::format(kGemms, "", "")), model);
  EXPECT_DOUBLE_EQ(one.us, 1000 + 200);
  EXPECT_DOUBLE_EQ(one.burstUs, 200);
  const std::string two = fmt::format(kGemms, "set_current_stream stream(1)",
                                      "set_current_stream %main\n  synchronize stream(1)");
  EXPECT_NEAR(simulated(plansOf(two), model).burstUs, 5 + 200, 1e-3);
  EXPECT_NEAR(simulated(plansOf(two), model, LaunchMode::Eager).burstUs, 200, 1e-3);
}

/// The host issues runs back to back, as fast as it can.
TEST(Simulator, TakesNoLessThanTheHostTakesToIssueARun) {
  CostModel model = easyModel();
  const std::vector<Plan> plans = plansOf(fmt::format(kGemms, "", ""));
  model.operations[0].issueUs = 300;
  EXPECT_NEAR(simulated(plans, model, LaunchMode::Eager).burstUs, 2 * 300, 1e-3);
  model.operations[0].issueUs = 30;
  EXPECT_NEAR(simulated(plans, model, LaunchMode::Eager).burstUs, 200, 1e-3);
}

} // namespace
} // namespace braid
