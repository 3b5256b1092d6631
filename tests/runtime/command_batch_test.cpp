//===- tests/runtime/command_batch_test.cpp - command batches that the executor issues --------===//

#include "api/autotune/candidates.h"
#include "api/ranks/backends.h"
#include "ir/failure.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/handshake.h"
#include "runtime/plan/specialize.h"
#include "tests/support/idle_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace braid {
namespace {

using testing::ElementsAre;

/// Records all calls that it receives.
class Recorder : public test::IdleDevice {
public:
  std::vector<std::string> calls;
  TransferMode used;

  bool offers(TransferMode mode) const override { return mode.copies != CopyBy::Engine; }
  Result<void *> allocate(ArenaKind, int64_t bytes) override {
    memory_.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes) + 1));
    return static_cast<void *>(memory_.back().get());
  }
  Status registerPlan(const Plan &, TransferMode mode) override {
    used = mode;
    return Status::ok();
  }
  void issueBatch(uint32_t stream, Tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode) override {
    calls.push_back(fmt::format("{}batch of {}", areDisjoint ? "disjoint " : "", steps.size()));
    for (const BatchedCommand &step : steps)
      calls.push_back(
          step.kind == CommandKind::Sum
              ? fmt::format("sum {} on {} of {} parts", step.command, stream, step.sum->count)
              : fmt::format("copy {} on {} of {}", step.command, stream, step.bytes));
  }
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override {
    calls.push_back(
        fmt::format("sum {} on {} of {} parts, alone", tag.command, stream, args.count));
  }

private:
  std::vector<std::unique_ptr<char[]>> memory_;
};

using test::Alone;

std::vector<std::string> callsOf(const std::string &body) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n" +
                                           body + "}\n");
  Result<Compiled> compiled = compile(*source, {});
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags);
  EXPECT_TRUE(plan.isOk());
  Recorder device;
  Alone control;
  Result<std::unique_ptr<Prepared>> prepared = prepare(*plan, device, control);
  EXPECT_TRUE(prepared.isOk());
  float a[4] = {}, c[4] = {};
  const void *input = a;
  void *output = c;
  (*prepared)->run(input, output);
  return device.calls;
}

TEST(Batch, CopiesThatShareNothingAreDisjoint) {
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set %C, %A\n"),
              ElementsAre("disjoint batch of 2", "copy 0 on 0 of 16", "copy 1 on 0 of 16"));
}

TEST(Batch, ACopyOfACopyIsNot) {
  EXPECT_THAT(callsOf("  %x = allocate symmetric f32[4]\n"
                      "  set %x, %A\n"
                      "  set %C, %x\n"),
              ElementsAre("batch of 2", "copy 0 on 0 of 16", "copy 1 on 0 of 16"));
}

/// Copies to the same buffer form a disjoint batch if their ranges do not overlap.
TEST(Batch, RangesOfABufferLieApart) {
  EXPECT_THAT(callsOf("  %x = allocate symmetric f32[8]\n"
                      "  %low = slice %x[0 .. 4]\n"
                      "  %high = slice %x[4 .. 8]\n"
                      "  set %low, %A\n"
                      "  set %high, %A\n")
                  .front(),
              "disjoint batch of 2");
}

TEST(Batch, EndsWhereAnotherStreamBegins) {
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set_current_stream stream(0)\n"
                      "  set %C, %A\n"),
              ElementsAre("disjoint batch of 1", "copy 0 on 0 of 16", "disjoint batch of 1",
                          "copy 1 on 1 of 16"));
}

TEST(Batch, TheSumBehindItIsItsLast) {
  EXPECT_THAT(callsOf("  %x = allocate symmetric f32[2, 4]\n"
                      "  %low = select %x[0]\n"
                      "  %high = select %x[1]\n"
                      "  set %low, %A\n"
                      "  set %high, %A\n"
                      "  sum %C, %x\n"
                      "  set %low, %A\n"),
              ElementsAre("disjoint batch of 3", "copy 0 on 0 of 16", "copy 1 on 0 of 16",
                          "sum 2 on 0 of 2 parts", "disjoint batch of 1", "copy 3 on 0 of 16"));
}

TEST(Batch, ASumBehindNothingOfItsStreamIsAlone) {
  EXPECT_THAT(callsOf("  %x = allocate symmetric f32[2, 4]\n"
                      "  %y = allocate symmetric f32[4]\n"
                      "  sum %C, %x\n"
                      "  sum %y, %x\n"
                      "  set %y, %A\n"
                      "  set_current_stream stream(0)\n"
                      "  sum %C, %x\n"),
              ElementsAre("sum 0 on 0 of 2 parts, alone", "sum 1 on 0 of 2 parts, alone",
                          "disjoint batch of 1", "copy 2 on 0 of 16",
                          "sum 3 on 1 of 2 parts, alone"));
}

/// Returns, for each command of a stream, whether the command continues the previous command's
/// batch. Copies read `copied` and write buffer `to`; sums write buffer 7.
std::vector<bool> continuations(std::initializer_list<CommandKind> kinds, Range copied = {},
                                uint32_t to = kPeerBuffer) {
  Plan plan;
  plan.sums.emplace_back();
  plan.sums.back().dst = {7, 0, 8};
  for (CommandKind kind : kinds) {
    plan.commands.emplace_back();
    plan.commands.back().kind = kind;
    plan.commands.back().sum = kind == CommandKind::Sum ? 0 : kNone;
    plan.commands.back().src = kind == CommandKind::Copy ? copied : Range();
    plan.commands.back().dst.buffer = to;
  }
  std::vector<bool> found;
  for (size_t i = 0; i < plan.commands.size(); ++i)
    found.push_back(continuesBatch(plan, i));
  return found;
}

TEST(Batch, BehindItsSumItHasAwaitsAlone) {
  using enum CommandKind;
  EXPECT_THAT(continuations({Await, Copy, Signal, Sum, Await, Await, Copy, Await}),
              ElementsAre(false, true, true, true, true, true, false, true));
  EXPECT_THAT(continuations({Sum, Await, Copy, Sum, Sum, Await}),
              ElementsAre(false, false, true, true, false, false));
}

TEST(Batch, GoesOnBehindItsSumIfThatIsGiven) {
  using enum CommandKind;
  const Range all{7, 0, 8}, half{7, 0, 4};
  EXPECT_THAT(continuations({Await, Sum, Await, Copy, Signal, Copy, Await, Copy, Sum, Signal}, all),
              ElementsAre(false, true, true, true, true, true, true, true, true, false));
  EXPECT_THAT(continuations({Await, Sum, Await, Copy}, half),
              ElementsAre(false, true, true, false));
  EXPECT_THAT(continuations({Await, Sum, Await, Copy}, all, /*to=*/3),
              ElementsAre(false, true, true, false))
      << "what this rank copies for itself is another batch";
  // A sum does not start a batch.
  EXPECT_THAT(continuations({Sum, Copy}, all), ElementsAre(false, false));
}

/// Private buffers may reuse the memory of deallocated buffers, but not the memory of live buffers.
TEST(Batch, IsDisjointIfPrivateBuffersLieApart) {
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  %y = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set_current_stream stream(0)\n"
                      "  set %y, %A\n"
                      "  set %C, %x\n"),
              ElementsAre("disjoint batch of 1", "copy 0 on 0 of 16", "disjoint batch of 2",
                          "copy 1 on 1 of 16", "copy 2 on 1 of 16"));
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set %C, %x\n"
                      "  deallocate %x\n"
                      "  %y = allocate device f32[4]\n"
                      "  set %y, %A\n")
                  .front(),
              "batch of 3");
}

TEST(Batch, RefusesMeansThatTheDeviceHasNot) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> () {\n}\n");
  Result<Compiled> compiled = compile(*source, {});
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags);
  Recorder device;
  Alone control;
  const TransferMode offered{CopyBy::Kernel, SignalBy::Memory};
  EXPECT_TRUE(prepare(*plan, device, control, offered).isOk());
  EXPECT_EQ(device.used, offered);
  auto refused = prepare(*plan, device, control, {CopyBy::Engine, SignalBy::Default});
  EXPECT_EQ(refused.status().code(), StatusCode::Unsupported);
}

/// The control plane of rank 0 of a two-rank job. Rank 1 always contributes `theirs`.
class BesideAnother final : public Alone {
public:
  explicit BesideAnother(std::string theirs) : theirs_(std::move(theirs)) {}
  int64_t size() const override { return 2; }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return std::vector{std::move(mine), theirs_};
  }

private:
  const std::string theirs_;
};

TEST(Prepare, RanksThatWantSomethingElseAreNamed) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 2) (%A: f32[4]) -> () {\n}\n");
  Result<Compiled> compiled = compile(*source, {});
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags);
  Recorder device;
  const Choice alike[] = {{"reproducible", "no"}, {"memory", "default"}};
  const Choice others[] = {{"reproducible", "yes"}, {"memory", "vmm"}};
  for (size_t i = 0; i < std::size(others); ++i) {
    std::vector<Choice> theirs(std::begin(alike), std::end(alike));
    theirs[i] = others[i];
    BesideAnother control(encodeChoices(theirs));
    EXPECT_EQ(prepare(*plan, device, control).status().message(),
              fmt::format("expected all ranks to have the same {0}, got\n  rank 0: {0} {1}\n"
                          "  rank 1: {0} {2}",
                          others[i].name, alike[i].value, others[i].value));
  }
}

/// Records calls to its messages and memory functions.
class Messenger final : public Recorder, public Messages {
public:
  Messages *messages() override { return this; }
  Result<void *> allocateFrom(MemoryFrom from, int64_t bytes) override {
    calls.push_back(fmt::format("memory {}", name(from).str()));
    return allocate(ArenaKind::Symmetric, bytes);
  }
  Status registerPlan(const Plan &, TransferMode) override {
    calls.push_back("register");
    return Status::ok();
  }
  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &) override {
    calls.push_back(fmt::format("open {}", teams.size()));
    return Status::ok();
  }
  void group(uint32_t, Tag, llvm::ArrayRef<MessageArgs>) override { calls.push_back("group"); }
  void collective(uint32_t, Tag, const CollectiveArgs &) override { calls.push_back("collective"); }
};

/// Returns the calls made while a one-rank sum is prepared, followed by the final status.
std::vector<std::string> preparing(Transport transport, TransferMode mode = {}) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n"
                                       "  %c = collective allreduce sum %C, %A\n  wait %c\n}\n");
  Result<Compiled> compiled = compile(*source, {.transport = transport});
  EXPECT_TRUE(compiled.isOk()) << compiled.status().message();
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags, compiled->transport);
  Messenger device;
  Alone control;
  const Status status = prepare(*plan, device, control, mode).status();
  device.calls.push_back(status.isOk() ? "ok" : status.message());
  EXPECT_TRUE(status.isOk() || status.code() == StatusCode::Unsupported);
  return device.calls;
}

TEST(Prepare, MessagesAreSentOnceBeforeTheFirstRun) {
  EXPECT_THAT(preparing(Transport::Messages),
              testing::ElementsAre("open 1", "register", "collective", "ok"));
}

TEST(Prepare, AllocatesTheChosenMemory) {
  EXPECT_THAT(preparing(Transport::PeerMemory, {.memory = MemoryFrom::Vmm}),
              testing::ElementsAre("memory vmm", "register", "ok"));
}

TEST(Prepare, RefusesChoicesThatMessagesWouldIgnore) {
  for (TransferMode mode :
       {TransferMode{.copies = CopyBy::Kernel}, TransferMode{.memory = MemoryFrom::Vmm}})
    EXPECT_THAT(
        preparing(Transport::Messages, mode),
        testing::ElementsAre("copy, signal and memory modes cannot be selected for messages"));
}

} // namespace
} // namespace braid
