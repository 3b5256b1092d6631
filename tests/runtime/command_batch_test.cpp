//===- tests/runtime/command_batch_test.cpp - what the executor issues together ---------------===//

#include "api/ranks/run.h"
#include "runtime/execute/executor.h"
#include "runtime/plan/specialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace braid {
namespace {

using testing::ElementsAre;

/// Writes down what it is given.
class Recorder final : public Device {
public:
  std::vector<std::string> calls;
  TransferMode used;

  bool offers(TransferMode transferMode) const override {
    return transferMode.copies != CopyBy::Engine;
  }
  void use(TransferMode transferMode) override { used = transferMode; }
  Result<void *> allocate(ArenaKind, int64_t bytes) override {
    memory_.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes) + 1));
    return static_cast<void *>(memory_.back().get());
  }
  Status reserveStreams(uint32_t) override { return Status::ok(); }
  Result<uint32_t> createEvents(uint32_t) override { return 0u; }
  Result<std::string> exportMemory(void *) override { return std::string(); }
  Status warm(const PlanMatmul &) override { return Status::ok(); }
  void copy(uint32_t stream, Tag tag, void *, const void *, int64_t bytes) override {
    calls.push_back(fmt::format("copy {} on {} of {}", tag.command, stream, bytes));
  }
  void matmul(uint32_t, Tag, const MatmulArgs &) override { calls.push_back("matmul"); }
  void add(uint32_t, Tag, DType, void *, const void *, int64_t) override {}
  void sum(uint32_t, Tag, const SumArgs &) override {}
  void pointwise(uint32_t, Tag, const PointwiseArgs &) override {}
  void signal(uint32_t, Tag, void *, uint32_t) override { calls.push_back("signal"); }
  void await(uint32_t, Tag, const void *, uint32_t) override { calls.push_back("await"); }
  void record(uint32_t, Tag, uint32_t) override { calls.push_back("record"); }
  void waitEvent(uint32_t, Tag, uint32_t) override { calls.push_back("wait_event"); }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                  bool areDisjoint) override {
    calls.push_back(fmt::format("{}batch of {}", areDisjoint ? "disjoint " : "", steps.size()));
    Device::issueBatch(stream, tag, steps, areDisjoint);
  }
  Status synchronize() override { return Status::ok(); }
  std::vector<PendingWait> pending() override { return {}; }
  void startTrace() override {}
  std::vector<Span> takeTrace() override { return {}; }

private:
  std::vector<std::unique_ptr<char[]>> memory_;
};

/// One rank alone.
class Alone final : public Transport {
public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return std::vector<std::string>{std::move(mine)};
  }
  Result<void *> open(int64_t, const std::string &) override { return nullptr; }
  Status commit() override { return Status::ok(); }
  void abort(const Status &) override {}
};

std::vector<std::string> callsOf(const std::string &body) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {\n" +
                                           body + "}\n");
  Result<Compiled> compiled = compile(*source, {});
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags);
  EXPECT_TRUE(plan.isOk());
  Recorder device;
  Alone transport;
  Result<std::unique_ptr<Prepared>> prepared = prepare(*plan, device, transport);
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

/// Of one buffer, only the ranges count; of two private ones nothing is known, because one may lie
/// where the other was.
TEST(Batch, RangesOfABufferAndPrivateBuffers) {
  EXPECT_THAT(callsOf("  %x = allocate symmetric f32[8]\n"
                      "  %low = slice %x[0 .. 4]\n"
                      "  %high = slice %x[4 .. 8]\n"
                      "  set %low, %A\n"
                      "  set %high, %A\n")
                  .front(),
              "disjoint batch of 2");
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  %y = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set %y, %A\n")
                  .front(),
              "batch of 2");
}

TEST(Batch, EndsWhereAnotherStreamBegins) {
  EXPECT_THAT(callsOf("  %x = allocate device f32[4]\n"
                      "  set %x, %A\n"
                      "  set_current_stream stream(0)\n"
                      "  set %C, %A\n"),
              ElementsAre("copy 0 on 0 of 16", "copy 1 on 1 of 16"));
}

TEST(Batch, RefusesMeansThatTheDeviceHasNot) {
  auto source = parseSource("t.braid", "program @t mesh [0 .. 1) (%A: f32[4]) -> () {\n}\n");
  Result<Compiled> compiled = compile(*source, {});
  Result<Plan> plan = specialize(*compiled->program, 0, source->diags);
  Recorder device;
  Alone transport;
  const TransferMode offered{CopyBy::Kernel, SignalBy::Memory};
  EXPECT_TRUE(prepare(*plan, device, transport, offered).isOk());
  EXPECT_EQ(device.used, offered);
  auto refused = prepare(*plan, device, transport, {CopyBy::Engine, SignalBy::Default});
  EXPECT_EQ(refused.status().code(), StatusCode::Unsupported);
}

} // namespace
} // namespace braid
