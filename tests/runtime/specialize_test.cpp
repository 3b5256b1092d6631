//===- tests/runtime/specialize_test.cpp - Program -> Plan ------------------------------------===//

#include "api/compile/compile.h"
#include "runtime/plan/specialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

/// Parses and verifies a valid program and creates the Plan of a rank.
struct Specialized {
  std::unique_ptr<Source> source;
  Result<Plan> plan = Status(StatusCode::Internal, "not made");
};

Specialized specialized(const std::string &text, int64_t rank = 0) {
  Specialized made{parseSource("t.braid", text)};
  EXPECT_TRUE(verify(made.source->module, made.source->diags)) << made.source->diags.str();
  if (!made.source->diags.hasErrors())
    made.plan = specialize(*made.source->module.programs.front(), rank, made.source->diags);
  return made;
}

/// Returns the Plan as text, without its two header lines.
std::string commands(const Plan &plan) {
  std::string text = str(plan);
  return text.substr(text.find('\n', text.find('\n') + 1) + 1);
}

std::string commandsOf(const std::string &text, int64_t rank = 0) {
  Specialized made = specialized(text, rank);
  EXPECT_TRUE(made.plan.isOk()) << made.source->diags.str() << made.plan.status().message();
  return made.plan ? commands(*made.plan) : "";
}

constexpr const char *kExchange = R"(
program @exchange mesh [0 .. 3) (%A: f32[1, 4]) -> (%C: f32[3, 4]) {
  %all = allocate symmetric f32[3, 4]
  %h = share_mem_handles PROTOCOL %all
  %mine = select %all[rank]
  %own = select %A[0]
  set %mine, %own
  %block = select %all[(rank + 1) mod 3]
  FIRST
  SECOND
  wait %r
  wait %s
  set %C, %all
}
)";

std::string exchange(const std::string &protocol) {
  std::string text = kExchange;
  std::string send = "%s = p2p send %mine to (rank - 1) mod 3 via %h";
  std::string receive = "%r = p2p recv %block from (rank + 1) mod 3 via %h";
  auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("PROTOCOL", protocol);
  replace("FIRST", protocol == "get" ? send : receive);
  replace("SECOND", protocol == "get" ? receive : send);
  return text;
}

TEST(Specialize, SpellsOutGet) {
  EXPECT_EQ(commandsOf(exchange("get"), 1),
            "      0  main       copy       %all[16 .. 32) <- %A[0 .. 16)\n"
            "      1  main       signal     rank 0, endpoint 0\n"
            "      2  main       await      flag 1 from rank 2\n"
            "      3  main       copy       %all[32 .. 48) <- rank 2's side\n"
            "      4  main       signal     rank 2, endpoint 1\n"
            "      5  main       await      flag 0 from rank 0\n"
            "      6  main       copy       %C[0 .. 48) <- %all[0 .. 48)\n");
}

TEST(Specialize, SpellsOutPut) {
  EXPECT_EQ(commandsOf(exchange("put"), 1),
            "      0  main       copy       %all[16 .. 32) <- %A[0 .. 16)\n"
            "      1  main       signal     rank 2, endpoint 0\n"
            "      2  main       await      flag 1 from rank 0\n"
            "      3  main       copy       rank 0's side <- %all[16 .. 32)\n"
            "      4  main       signal     rank 0, endpoint 1\n"
            "      5  main       await      flag 0 from rank 2\n"
            "      6  main       copy       %C[0 .. 48) <- %all[0 .. 48)\n");
}

/// A result stored at a peer has no local range. If the result has no rows, it has no endpoint.
TEST(Specialize, SpellsOutPutOfWhatIsComputed) {
  const char *text = R"(
program @computed mesh [0 .. 2) (%A: f16[2, 4], %w: f16[3, 4]) -> (%C: f32[2, 3]) {
  %slots = allocate symmetric f32[2, 3]
  %h = share_mem_handles put %slots
  %rows = slice %slots[0 .. 1 - rank]
  %mine = slice %A[0 .. rank]
  %r = p2p recv %rows from 1 - rank via %h
  set_current_stream stream(0)
  %s = p2p send linear %mine, %w : f32[rank, 3] to 1 - rank via %h
  set_current_stream stream(1)
  wait %s
  wait %r
  set %C, %slots
}
)";
  EXPECT_EQ(commandsOf(text, 1), "      0  stream(0)  await      flag 0 from rank 0\n"
                                 "      1  stream(0)  matmul     rank 0's side <- %A[0 .. 8) * "
                                 "%w[0 .. 24)^T (1x3x4 f16)\n"
                                 "      2  stream(0)  signal     rank 0, endpoint 0\n"
                                 "      3  stream(0)  record     event 0\n"
                                 "      4  stream(1)  wait_event event 0\n"
                                 "      5  stream(1)  copy       %C[0 .. 24) <- %slots[0 .. 24)\n");
  const Plan sender = std::move(*specialized(text, 1).plan);
  EXPECT_EQ(sender.endpoints[0].range, (Range{kPeerBuffer, 0, 12}));
  EXPECT_EQ(sender.endpoints[0].dtype, DType::F32);
  EXPECT_EQ(sender.matmuls[0].partial, DType::F32);
  const Plan receiver = std::move(*specialized(text, 0).plan);
  EXPECT_EQ(receiver.endpoints.size(), 1u);
  EXPECT_TRUE(receiver.matmuls.empty());
}

TEST(Specialize, CountsTransfersOfAPairInProgramOrder) {
  Specialized made = specialized(R"(
program @two mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles get %all
  for %i in 0 .. 2 {
    %x = select %all[0]
    %y = select %all[1]
    %s = p2p send %x to (rank + 1) mod 2 via %h
    %r = p2p recv %y from (rank + 1) mod 2 via %h
    wait %r
    wait %s
  }
  set %C, %A
}
)");
  ASSERT_TRUE(made.plan.isOk());
  std::vector<uint32_t> sequences, flags;
  for (const Endpoint &endpoint : made.plan->endpoints) {
    sequences.push_back(endpoint.sequence);
    flags.push_back(endpoint.flag);
  }
  EXPECT_THAT(sequences, testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(flags, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(made.plan->flags, 4u);
}

TEST(Specialize, RecordsAStreamOnceForSeveralWaiters) {
  EXPECT_EQ(commandsOf(R"(
program @streams mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4], %D: f32[4], %E: f32[4]) {
  %main = get_current_stream
  set %E, %A
  for %j in 0 .. 2 {
    set_current_stream stream(%j)
    synchronize %main
    synchronize stream(%j)
  }
  set %C, %A
  set_current_stream stream(0)
  set %D, %A
  set_current_stream %main
  for %j in 0 .. 2 {
    synchronize stream(%j)
  }
}
)"),
            "      0  main       copy       %E[0 .. 16) <- %A[0 .. 16)\n"
            "      1  main       record     event 0\n"
            "      2  stream(0)  wait_event event 0\n"
            "      3  stream(1)  wait_event event 0\n"
            "      4  stream(1)  copy       %C[0 .. 16) <- %A[0 .. 16)\n"
            "      5  stream(0)  copy       %D[0 .. 16) <- %A[0 .. 16)\n"
            "      6  stream(0)  record     event 1\n"
            "      7  main       wait_event event 1\n"
            "      8  stream(1)  record     event 2\n"
            "      9  main       wait_event event 2\n");
}

TEST(Specialize, OrdersAWaitOnAnotherStreamBehindTheCopyOnly) {
  std::string text = commandsOf(R"(
program @w mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4], %D: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles get %all
  %x = select %all[0]
  %y = select %all[1]
  %s = p2p send %x to (rank + 1) mod 2 via %h
  %r = p2p recv %y from (rank + 1) mod 2 via %h
  set %D, %A
  set_current_stream stream(0)
  wait %r
  set %C, %y
  wait %s
}
)");
  size_t copied = text.find("rank 1's side"), recorded = text.find("record"),
         later = text.find("%D[");
  EXPECT_LT(copied, recorded);
  EXPECT_LT(recorded, later);
  EXPECT_THAT(text, HasSubstr("stream(0)  wait_event event 0"));
}

TEST(Specialize, LaysBuffersOutAndReusesMemoryOnlyOnTheSameStream) {
  Specialized made = specialized(R"(
program @m mesh [0 .. 1) (%A: f32[100]) -> (%C: f32[100]) {
  %a = allocate device f32[100]
  set %a, %A
  deallocate %a
  %b = allocate device f32[100]
  set %b, %A
  deallocate %b
  set_current_stream stream(0)
  %c = allocate device f32[100]
  set %c, %A
  %d = allocate symmetric f32[1]
  set %C, %c
}
)");
  ASSERT_TRUE(made.plan.isOk());
  const auto &buffers = made.plan->buffers;
  ASSERT_EQ(buffers.size(), 6u);
  EXPECT_EQ(buffers[2].offset, 0);
  EXPECT_EQ(buffers[3].offset, 0) << "freed and allocated on one stream";
  EXPECT_EQ(buffers[4].offset, 512) << "allocated on another stream than it was freed on";
  EXPECT_EQ(made.plan->deviceBytes, 1024);
  EXPECT_EQ(made.plan->symmetricBytes, 256);
}

/// The range starts and ends inside entries of the flattened tensor, which is itself a slice.
TEST(Specialize, FlattensTheLeadingAxes) {
  const char *text = R"(
program @f mesh [0 .. 2) (%A: f32[4, 2, 5, 3]) -> (%C: f32[6, 3]) {
  %pairs = slice %A[rank .. rank + 2]
  %rows = flatten %pairs
  %one = select %rows[rank + 1]
  %entries = flatten %rows
  %some = slice %entries[4 * rank + 3 .. 4 * rank + 9]
  set %C, %some
  %begin = slice %C[0 .. 5]
  set %begin, %one
}
)";
  EXPECT_THAT(commandsOf(text, 0), HasSubstr("%C[0 .. 72) <- %A[36 .. 108)"));
  EXPECT_THAT(commandsOf(text, 0), HasSubstr("%C[0 .. 60) <- %A[60 .. 120)"));
  EXPECT_THAT(commandsOf(text, 1), HasSubstr("%C[0 .. 72) <- %A[204 .. 276)"));
  EXPECT_THAT(commandsOf(text, 1), HasSubstr("%C[0 .. 60) <- %A[240 .. 300)"));
}

TEST(Specialize, DecidesConditionsPerRank) {
  const char *text = R"(
program @c mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  if rank == 0 {
    set %C, %A
  } else {
    %x = slice %C[0 .. 2]
    %y = slice %A[2 .. 4]
    set %x, %y
  }
}
)";
  EXPECT_THAT(commandsOf(text, 0), HasSubstr("%C[0 .. 16) <- %A[0 .. 16)"));
  EXPECT_THAT(commandsOf(text, 1), HasSubstr("%C[0 .. 8) <- %A[8 .. 16)"));
}

/// A kernel that adds data as it pulls the data need not store it if only the sum reads it. The
/// peer pulls from `sent`; `more` follows the sum.
TEST(Specialize, SaysWhichPartsOnlyTheirSumReads) {
  auto keepsParts = [](const std::string &sent, const std::string &more) {
    const Specialized made = specialized(R"(
program @pulled mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4], %D: f32[4]) {
  %parts = allocate symmetric f32[2, 4]
  %other = allocate symmetric f32[2, 4]
  %h = share_mem_handles get )" + sent + R"(
  %given = select )" + sent + R"([rank]
  %slot = select %parts[(rank + 1) mod 2]
  %own = select %parts[rank]
  set %own, %A
  set %D, %A
  %s = p2p send %given to (rank + 1) mod 2 via %h
  %r = p2p recv %slot from (rank + 1) mod 2 via %h
  wait %r
  sum %C, %parts
  )" + more + R"(
  wait %s
}
)");
    EXPECT_TRUE(made.plan.isOk()) << made.source->diags.str() << made.plan.status().message();
    return !made.plan || made.plan->sums.front().keepsParts;
  };
  EXPECT_FALSE(keepsParts("%other", ""));
  EXPECT_TRUE(keepsParts("%parts", "")) << "the peer pulls what a copy has brought";
  EXPECT_TRUE(keepsParts("%other", "set %D, %slot"));
  EXPECT_TRUE(keepsParts("%other", "pointwise %D, relu(%slot)"));
  EXPECT_TRUE(keepsParts("%other", "sum %D, %parts")) << "of two sums one may come later";
}

TEST(Specialize, KeepsPartsThatTheCallerGets) {
  const Specialized made = specialized(R"(
program @kept mesh [0 .. 1) (%A: f32[2, 4]) -> (%C: f32[4], %parts: f32[2, 4]) {
  set %parts, %A
  sum %C, %parts
}
)");
  ASSERT_TRUE(made.plan.isOk()) << made.source->diags.str();
  EXPECT_TRUE(made.plan->sums.front().keepsParts);
}

/// A receiver signals that it is ready or has read the data; a sender signals that data is there.
TEST(Specialize, SaysWhatSignalsMakeKnown) {
  auto published = [](const std::string &protocol) {
    const Specialized made = specialized(R"(
program @shifted mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles )" + protocol + R"( %all
  %mine = select %all[rank]
  %theirs = select %all[(rank + 1) mod 2]
  %s = p2p send %mine to (rank + 1) mod 2 via %h
  %r = p2p recv %theirs from (rank + 1) mod 2 via %h
  wait %r
  wait %s
  set %C, %theirs
}
)");
    return std::pair(made.plan->endpoints[0].published(), made.plan->endpoints[1].published());
  };
  EXPECT_EQ(published("get"), std::pair(Published::Own, Published::Nothing));
  EXPECT_EQ(published("put"), std::pair(Published::Peers, Published::Nothing));
}

/// GEMMs on several streams may overlap, which affects the choice of algorithm.
TEST(Specialize, SaysWhichGemmsMayOverlap) {
  auto overlaps = [](const std::string &between) {
    Specialized made = specialized("program @p mesh [0 .. 2) (%A: f32[2, 4, 8], %B: f32[8, 8]) ->\n"
                                   "    (%C: f32[2, 4, 8]) {\n"
                                   "  %main = get_current_stream\n"
                                   "  %a0 = select %A[0]\n  %c0 = select %C[0]\n"
                                   "  %a1 = select %A[1]\n  %c1 = select %C[1]\n"
                                   "  matmul %c0, %a0, %B\n" +
                                   between + "  matmul %c1, %a1, %B\n" +
                                   "  set_current_stream %main\n  synchronize stream(1)\n}\n");
    std::vector<bool> each;
    for (const PlanMatmul &gemm : made.plan->matmuls)
      each.push_back(gemm.overlaps);
    return each;
  };
  EXPECT_EQ(overlaps(""), (std::vector<bool>{false, false}));
  EXPECT_EQ(overlaps("  set_current_stream stream(1)\n"), (std::vector<bool>{true, true}));
}

//===- Errors that only unrolling can detect --------------------------------------------------===//

struct BadCase {
  const char *body;    ///< body of a program on 3 ranks
  const char *message; ///< with location, as printed for rank 1
};

class SpecializeRefuses : public testing::TestWithParam<BadCase> {};

TEST_P(SpecializeRefuses, WithPlaceRankAndTrip) {
  std::string text = std::string("program @bad mesh [0 .. 3) (%A: f32[6, 4], %V: f32[4]) -> "
                                 "(%C: f32[6, 4], %D: f32[3, 4]) {\n"
                                 "  %all = allocate symmetric f32[3, 4]\n"
                                 "  %h = share_mem_handles get %all\n") +
                     GetParam().body + "\n}\n";
  Specialized made = specialized(text, 1);
  EXPECT_FALSE(made.plan.isOk());
  EXPECT_EQ(made.plan.status().code(), StatusCode::BadInput);
  std::string printed = made.source->diags.str();
  EXPECT_EQ(printed.substr(0, printed.find('\n')), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, SpecializeRefuses,
    testing::Values(
        BadCase{"for %i in 0 .. 5 {\n%x = select %all[%i]\n}",
                "t.braid:5:1: error: index %i is 3, but the leading axis of f32[3, 4] has extent 3 "
                "on rank 1 (trip 3)"},
        BadCase{"%x = select %all[rank - 2]",
                "t.braid:4:1: error: index rank - 2 is -1, but the leading axis of f32[3, 4] has "
                "extent 3 on rank 1"},
        BadCase{"for %i in 2 .. 5 {\n%x = slice %all[%i .. 3]\n}",
                "t.braid:5:1: error: the range is [4 .. 3), but the leading axis of f32[3, 4] has "
                "extent 3 on rank 1 (trip 4)"},
        BadCase{"%x = slice %all[0 .. rank - 1]\n%w = allocate device f32[6, 3]\n"
                "%y = slice %w[0 .. 6]\n%z = slice %C[0 .. 6]\nmatmul %z, %y, %x",
                "t.braid:8:1: error: cannot contract extent 3 of f32[6, 3] with extent 0 of f32[0, "
                "4] on "
                "rank 1"},
        BadCase{"%x = slice %all[0 .. rank - 1]\n%v = allocate device f32[3]\n"
                "%y = slice %v[0 .. rank - 1]\n%z = select %C[0]\nmatmul %z, %y, %x",
                "t.braid:8:1: error: cannot contract an empty axis of f32[0] on rank 1"},
        BadCase{"%x = select %all[0]\n%s = p2p send %x to rank + 2 via %h\nwait %s",
                "t.braid:5:1: error: peer rank + 2 is 3, but the mesh has ranks 0 to 2 on rank 1"},
        BadCase{"%x = select %all[0]\n%s = p2p send %x to 1 via %h\nwait %s",
                "t.braid:5:1: error: peer 1 is the rank itself on rank 1"},
        BadCase{
            "for %i in 0 .. 2 {\n%x = slice %C[0 .. 2 + %i]\n%y = slice %A[0 .. 3 - %i]\n"
            "set %x, %y\n}",
            "t.braid:7:1: error: the source is f32[3, 4], expected f32[2, 4] on rank 1 (trip 0)"},
        BadCase{"%x = slice %C[0 .. 3 + rank - 1]\n%y = slice %C[2 .. 5]\nset %x, %y",
                "t.braid:6:1: error: the destination overlaps a source in %C on rank 1"},
        BadCase{"%slots = allocate symmetric f32[6, 3]\n%put = share_mem_handles put %slots\n"
                "%s = p2p send linear %A, %D : f32[6, 4 - rank * 2] to 0 via %put\nwait %s",
                "t.braid:6:1: error: the result is f32[6, 2], expected f32[6, 3] on rank 1"},
        BadCase{"%slots = allocate symmetric f32[1]\n%put = share_mem_handles put %slots\n"
                "%s = p2p send linear %A, %A : f32[rank * 4611686018427387904, 6] to 0 via %put\n"
                "wait %s",
                "t.braid:6:1: error: the size of f32[4611686018427387904, 6] in bytes overflows 64 "
                "bits on rank 1"},
        BadCase{"set_current_stream stream(rank - 2)",
                "t.braid:4:1: error: stream rank - 2 is -1, expected 0 to 1023 on rank 1"},
        BadCase{"%x = select %all[1 / (rank - 1)]",
                "t.braid:4:1: error: the index 1/(rank - 1) divides by zero on rank 1"},
        BadCase{"%x = select %all[(rank + 9223372036854775807) mod 3]",
                "t.braid:4:1: error: the index (rank + 9223372036854775807) mod 3 overflows 64 "
                "bits on rank 1"},
        BadCase{"for %i in 0 .. 9223372036854775807 {\n}",
                "t.braid:4:1: error: the program unrolls to more than 16777216 steps per rank"}));

/// Rank r has r rows, so rank 0 computes nothing and rank 1 sends no data to it.
TEST(Specialize, DoesNothingForEmptyRanges) {
  const char *text = R"(
program @rows mesh [0 .. 2) (%A: f32[2, 4], %B: f32[4, 4], %b: f32[4]) -> (%C: f32[2, 4]) {
  %all = allocate symmetric f32[2, 2, 4]
  %h = share_mem_handles get %all
  %a = slice %A[0 .. rank]
  %c = slice %C[0 .. rank]
  matmul %c, %a, %B
  set %c, %a
  sum %c, %all[0 .. rank], %b
  %mine = select %all[rank]
  %other = select %all[1 - rank]
  %none = slice %mine[min(rank + 1, 1) .. max(rank - 1, 0)]
  %nothing = slice %other[1 .. max(rank - 1, 0)]
  %s = p2p send %none to 1 - rank via %h
  %r = p2p recv %nothing from 1 - rank via %h
  group {
    %s2 = p2p send %none to 1 - rank via %h
    %r2 = p2p recv %other from 1 - rank via %h
    %s3 = p2p send %mine to 1 - rank via %h
  }
  wait %s
  wait %r
  wait %s2
  wait %r2
  wait %s3
}
)";
  EXPECT_EQ(commandsOf(text, 0), "      0  main       signal     rank 1, endpoint 1\n"
                                 "      1  main       await      flag 0 from rank 1\n"
                                 "      2  main       copy       %all[32 .. 64) <- rank 1's side\n"
                                 "      3  main       signal     rank 1, endpoint 0\n"
                                 "      4  main       await      flag 1 from rank 1\n");
  const Specialized one = specialized(text, 1);
  ASSERT_TRUE(one.plan.isOk());
  EXPECT_EQ(one.plan->matmuls.size(), 1u);
  ASSERT_EQ(one.plan->endpoints.size(), 2u);
  for (const Endpoint &endpoint : one.plan->endpoints)
    EXPECT_EQ(endpoint.sequence, 0u);
}

constexpr const char *kReduceScatter = R"(
program @c mesh [0 .. 2) (%A: f32[2, 4]) -> (%C: f32[4]) {
  %c = collective reduce_scatter sum %C, %A
  wait %c
}
)";

TEST(Specialize, SpellsOutACollective) {
  EXPECT_EQ(commandsOf(kReduceScatter, 1),
            "      0  main       copy       %collective_parts[16 .. 32) <- %A[16 .. 32)\n"
            "      1  main       signal     rank 0, endpoint 1\n"
            "      2  main       await      flag 0 from rank 0\n"
            "      3  main       copy       rank 0's side <- %A[0 .. 16)\n"
            "      4  main       signal     rank 0, endpoint 0\n"
            "      5  main       await      flag 1 from rank 0\n"
            "      6  main       sum        %C[0 .. 16) <- 2 parts of f32 every 16 bytes from "
            "%collective_parts[0 .. 16)\n");
}

std::string messagesOf(const std::string &text, int64_t rank = 0) {
  Specialized made = specialized(text, rank);
  Result<Plan> plan = specialize(*made.source->module.programs.front(), rank, made.source->diags,
                                 Transport::Messages);
  EXPECT_TRUE(plan.isOk()) << made.source->diags.str() << plan.status().message();
  return plan ? commands(*plan) : "";
}

TEST(Specialize, CollectivesOverMessagesStayWhole) {
  EXPECT_EQ(messagesOf(kReduceScatter, 1),
            "      0  main       collective reduce_scatter sum %C[0 .. 16) <- %A[0 .. 32), team "
            "[0, 1]\n");
}

/// Rank 0 is not a member of the second team.
TEST(Specialize, ListsAllTeamsOnEachRank) {
  const std::string text = "program @p mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4], %D: f32[4]) {\n"
                           "  %c = collective allreduce sum %C, %A\n  wait %c\n"
                           "  %d = collective broadcast %D, %A team [1] root 1\n  wait %d\n"
                           "  %e = collective allreduce sum %C, %A\n  wait %e\n}\n";
  for (int64_t rank : {0, 1}) {
    Specialized made = specialized(text, rank);
    const Result<Plan> plan = specialize(*made.source->module.programs.front(), rank,
                                         made.source->diags, Transport::Messages);
    ASSERT_TRUE(plan.isOk());
    EXPECT_THAT(plan->teams,
                testing::ElementsAre(testing::ElementsAre(0, 1), testing::ElementsAre(1)));
    EXPECT_TRUE(made.plan->teams.empty()) << "through peers' memory there are none";
  }
}

/// A group waits for all streams that posted its messages, and for the preceding group.
TEST(Specialize, OrdersGroups) {
  EXPECT_EQ(
      messagesOf(R"(
program @p mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles put %all
  %mine = select %all[0]
  %other = select %all[1]
  set %mine, %A
  set_current_stream stream(0)
  %r = p2p recv %other from 1 - rank via %h
  set_current_stream stream(1)
  %s = p2p send %A to 1 - rank via %h
  set %C, %mine
  %s2 = p2p send %A to 1 - rank via %h
  set_current_stream stream(0)
  wait %r
  %r2 = p2p recv %other from 1 - rank via %h
  wait %s
  wait %s2
  wait %r2
}
)"),
      "      0  main       copy       %all[0 .. 16) <- %A[0 .. 16)\n"
      "      1  stream(0)  record     event 0\n"
      "      2  stream(1)  wait_event event 0\n"
      "      3  stream(1)  group      recv %all[16 .. 32) from rank 1, send %A[0 .. 16) to rank "
      "1\n"
      "      4  stream(1)  record     event 1\n"
      "      5  stream(1)  copy       %C[0 .. 16) <- %all[0 .. 16)\n"
      "      6  stream(1)  group      send %A[0 .. 16) to rank 1\n"
      "      7  stream(1)  record     event 2\n"
      "      8  stream(0)  wait_event event 1\n"
      "      9  stream(0)  wait_event event 2\n"
      "     10  stream(0)  group      recv %all[16 .. 32) from rank 1\n"
      "     11  stream(0)  wait_event event 1\n"
      "     12  stream(0)  wait_event event 2\n");
}

TEST(Specialize, WarmsGemmsOfEveryResultType) {
  const Specialized made = specialized(R"(
program @t mesh [0 .. 1) (%A: bf16[4, 8], %B: bf16[8, 16]) -> (%C: bf16[4, 16], %P: f32[4, 16]) {
  matmul %C, %A, %B
  matmul %P, %A, %B
  matmul %C, %A, %B
}
)",
                                       0);
  ASSERT_TRUE(made.plan.isOk()) << made.source->diags.str();
  const std::vector<PlanMatmul> &gemms = made.plan->matmuls;
  EXPECT_THAT(distinctGemms(*made.plan), testing::ElementsAre(&gemms[0], &gemms[1]));
}

} // namespace
} // namespace braid
