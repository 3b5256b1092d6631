//===- tests/runtime/plan_parts_test.cpp - parts of a Plan ------------------------------------===//

#include "api/compile/compile.h"
#include "runtime/plan/plan_parts.h"
#include "runtime/plan/specialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A program that fetches the peer's block on another stream, multiplies it by B, and multiplies
/// the product by B again.
constexpr const char *kProgram = R"(
program @both mesh [0 .. 2) (%A: f32[1, 4, 4], %B: f32[4, 4]) -> (%C: f32[4, 4]) {
  %all = allocate symmetric f32[2, 4, 4]
  %h = share_mem_handles get %all
  %sum = allocate device f32[4, 4]
  %main = get_current_stream
  %mine = select %all[rank]
  %own = select %A[0]
  set %mine, %own
  set_current_stream stream(1)
  synchronize %main
  %block = select %all[(rank + 1) mod 2]
  %s = p2p send %mine to (rank + 1) mod 2 via %h
  %r = p2p recv %block from (rank + 1) mod 2 via %h
  wait %r
  wait %s
  set_current_stream %main
  synchronize stream(1)
  matmul %sum, %block, %B
  deallocate %all
  matmul %C, %sum, %B
}
)";

Plan planOf(const std::string &text, int64_t rank = 0) {
  std::unique_ptr<Source> source = parseSource("t.braid", text);
  EXPECT_TRUE(verify(source->module, source->diags)) << source->diags.str();
  Result<Plan> plan = specialize(*source->module.programs.front(), rank, source->diags);
  EXPECT_TRUE(plan.isOk()) << source->diags.str();
  return plan ? std::move(*plan) : Plan();
}

std::vector<std::string> kindsOf(const Plan &plan) {
  std::vector<std::string> kinds;
  for (const Command &command : plan.commands)
    kinds.push_back(plan.streams[command.stream] + " " + name(command.kind).str());
  return kinds;
}

TEST(PlanParts, GemmsKeepTheirStreamsAndWhatOrdersThem) {
  const Plan gemms = gemmsOf(planOf(kProgram));
  EXPECT_THAT(kindsOf(gemms), ElementsAre("main record", "stream(1) wait_event", "stream(1) record",
                                          "main wait_event", "main matmul", "main matmul"));
  EXPECT_THAT(gemms.endpoints, IsEmpty());
  EXPECT_EQ(gemms.flags, 0u);
  EXPECT_EQ(gemms.channels, 0u) << "they meet nobody";
}

/// The caller provides the operands, because GEMMs may run faster on zeros.
TEST(PlanParts, GemmsReadWhatTheCallerGives) {
  const Plan gemms = gemmsOf(planOf(kProgram));
  EXPECT_EQ(gemms.symmetricBytes, 0);
  EXPECT_EQ(gemms.deviceBytes, 0);
  auto bufferOf = [&](const Range &range) { return gemms.buffers[range.buffer]; };
  const PlanMatmul &first = gemms.matmuls[0], &second = gemms.matmuls[1];
  EXPECT_EQ(bufferOf(first.a).name, "all");
  EXPECT_EQ(bufferOf(first.a).kind, BufferKind::Input);
  EXPECT_EQ(bufferOf(first.a).offset, 2) << "the parameter's number";
  EXPECT_EQ(gemms.inputs[2], first.a.buffer);
  EXPECT_EQ(first.a.offset, 64) << "the other rank's block";
  EXPECT_EQ(bufferOf(first.c).kind, BufferKind::Output) << "no row writes what others read";
  EXPECT_EQ(second.a.buffer, first.c.buffer);
  EXPECT_EQ(gemms.outputs.size(), 2u);
}

TEST(PlanParts, TransfersKeepCopiesSignalsAndAwaits) {
  const Plan whole = planOf(kProgram);
  const Plan transfers = transfersAlone(whole);
  std::vector<std::string> expected = kindsOf(whole);
  std::erase(expected, "main matmul");
  EXPECT_EQ(kindsOf(transfers), expected);
  EXPECT_EQ(kindsOf(whole).size(), expected.size() + 2);
  EXPECT_EQ(transfers.endpoints.size(), whole.endpoints.size());
  EXPECT_EQ(transfers.flags, whole.flags);
  EXPECT_EQ(transfers.symmetricBytes, whole.symmetricBytes);
  EXPECT_THAT(transfers.matmuls, IsEmpty());
  ASSERT_EQ(whole.releases.size(), 1u);
  EXPECT_EQ(whole.releases[0].beforeCommand, whole.commands.size() - 1);
  EXPECT_EQ(transfers.releases[0].beforeCommand, transfers.commands.size());
}

/// A GEMM that stores its result at a peer appears in both parts: as a local GEMM and as a copy.
TEST(PlanParts, WhatIsStoredAtAPeerIsStoredHereAndCopied) {
  const char *text = R"(
program @p mesh [0 .. 2) (%A: f32[4, 4], %B: f32[4, 4]) -> () {
  %slots = allocate symmetric f32[4, 4]
  %scratch = allocate device f32[1]
  %h = share_mem_handles put %slots
  %r = p2p recv %slots from 1 - rank via %h
  %s = p2p send matmul %A, %B : f32[4, 4] to 1 - rank via %h
  deallocate %scratch
  wait %r
  wait %s
}
)";
  const Plan gemms = gemmsOf(planOf(text));
  EXPECT_THAT(kindsOf(gemms), ElementsAre("main matmul"));
  EXPECT_EQ(gemms.commands[0].endpoint, kNone);
  EXPECT_EQ(gemms.buffers[gemms.matmuls[0].c.buffer].kind, BufferKind::Output);
  const Plan transfers = transfersAlone(planOf(text));
  EXPECT_THAT(kindsOf(transfers),
              ElementsAre("main signal", "main await", "main copy", "main signal", "main await"));
  const Command &copy = transfers.commands[2];
  EXPECT_EQ(copy.dst, (Range{kPeerBuffer, 0, 64}));
  EXPECT_EQ(transfers.buffers[copy.src.buffer].offset, 256) << "behind what the arena has";
  EXPECT_EQ(copy.src, transfers.endpoints[1].range);
  EXPECT_EQ(transfers.deviceBytes, 512);
  EXPECT_EQ(transfers.releases[0].beforeCommand, 4u);
}

} // namespace
} // namespace braid
