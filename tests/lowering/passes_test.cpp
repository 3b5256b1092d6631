//===- tests/lowering/passes_test.cpp - what each pass makes of a small fusion ----------------===//

#include "tests/lowering/support.h"
#include "tests/support/configured.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char *const kGather = R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  output %C
}
)";

const char *const kLocal = R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[2, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[Stream{2}, 6, 3]
  output %C
}
)";

const char *const kStraight = R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[DIDx{D}, 6, 3]
  output %C
}
)";

//===- find-moves -----------------------------------------------------------------------------===//

TEST(FindMoves, DeclaresTheSignature) {
  EXPECT_EQ(lowerText(kGather).snapshots.front().text,
            "program @f_pairwise implements @f mesh [0 .. 4)\n"
            "    (%A: f32[1, 6, 5], %B: f32[5, 3]) -> (%C: f32[4, 6, 3]) {\n}\n");
}

TEST(FindMoves, NamesTheProgramAfterWhatMoves) {
  EXPECT_THAT(lowerText(kGather, "ring").text, HasSubstr("program @f_ring "));
  EXPECT_THAT(lowerText(kGather, "sequential").text, HasSubstr("program @f_sequential "));
  EXPECT_THAT(lowerText(kLocal).text, HasSubstr("program @f_local "));
  EXPECT_THAT(lowerText(kStraight).text, HasSubstr("program @f_local "));
}

//===- form-pipelines -------------------------------------------------------------------------===//

TEST(FormPipelines, StartsEveryRankAtItsOwnBlock) {
  EXPECT_EQ(lowerText(kGather).after("form-pipelines"),
            R"(  %A_all = allocate symmetric f32[4, 6, 5]
  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
  }
)");
}

TEST(FormPipelines, MakesOneGemmUnderNone) {
  EXPECT_EQ(lowerText(kGather, "sequential").after("form-pipelines"),
            R"(  %A_all = allocate symmetric f32[4, 6, 5]
  matmul %C, %A_all, %B
)");
}

TEST(FormPipelines, TakesLocalBlocksInOrder) {
  EXPECT_EQ(lowerText(kLocal).after("form-pipelines"), R"(  for %i in 0 .. 2 {
    %block = select %A[%i]
    %out = select %C[%i]
    matmul %out, %block, %B
  }
)");
}

TEST(FormPipelines, LeavesStraightGemmsWhole) {
  EXPECT_EQ(lowerText(kStraight).after("form-pipelines"), "  matmul %C, %A, %B\n");
}

//===- insert-transfers -----------------------------------------------------------------------===//

TEST(InsertTransfers, GivesTheOwnBlockToEveryoneInTurn) {
  EXPECT_EQ(lowerText(kGather).after("insert-transfers"),
            R"(  %A_all = allocate symmetric f32[4, 6, 5]
  %h = share_mem_handles get %A_all
  %mine = select %A_all[rank]
  %own = select %A[0]
  set %mine, %own
  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    if %i != 0 {
      %s = p2p send %mine to (rank - %i) mod 4 via %h
      %r = p2p recv %block from (rank + %i) mod 4 via %h
      wait %r
      wait %s
    }
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
  }
)");
}

TEST(InsertTransfers, ForwardsTheBlockBeforeInARing) {
  EXPECT_THAT(lowerText(kGather, "ring").after("insert-transfers"),
              HasSubstr(R"(    %block = select %A_all[(rank + %i) mod 4]
    if %i != 0 {
      %from = select %A_all[(rank + %i - 1) mod 4]
      %s = p2p send %from to (rank - 1) mod 4 via %h
      %r = p2p recv %block from (rank + 1) mod 4 via %h
      wait %r
      wait %s
    }
)"));
}

TEST(InsertTransfers, PostsReceivesFirstUnderPut) {
  for (const Preset &preset : test::pairPresets()) {
    std::string body =
        lowerText(kGather, preset.name.str() + ";protocol=put").after("insert-transfers");
    EXPECT_THAT(body, HasSubstr("%h = share_mem_handles put %A_all\n"));
    EXPECT_LT(body.find("p2p recv"), body.find("p2p send"));
  }
}

TEST(InsertTransfers, MovesBeforeTheGemmUnderNone) {
  EXPECT_THAT(lowerText(kGather, "sequential").after("insert-transfers"),
              HasSubstr(R"(  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    if %i != 0 {
      %s = p2p send %mine to (rank - %i) mod 4 via %h
      %r = p2p recv %block from (rank + %i) mod 4 via %h
      wait %r
      wait %s
    }
  }
  matmul %C, %A_all, %B
)"));
}

//===- peel-own-step --------------------------------------------------------------------------===//

TEST(PeelOwnStep, ComputesTheOwnBlockFirst) {
  EXPECT_THAT(lowerText(kGather).after("peel-own-step"), HasSubstr(R"(  set %mine, %own
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  for %i in 1 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %s = p2p send %mine to (rank - %i) mod 4 via %h
    %r = p2p recv %block from (rank + %i) mod 4 via %h
    wait %r
    wait %s
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
  }
)"));
}

TEST(PeelOwnStep, OnlyShortensTheLoopUnderNone) {
  std::string body = lowerText(kGather, "sequential").after("peel-own-step");
  EXPECT_THAT(body, HasSubstr("  set %mine, %own\n  for %i in 1 .. 4 {\n"));
  EXPECT_THAT(body, Not(HasSubstr("if ")));
}

//===- split-chunks ---------------------------------------------------------------------------===//

TEST(SplitChunks, CutsSourceBlockAndOut) {
  EXPECT_THAT(lowerText(kGather, "chunks=2").after("split-chunks"),
              HasSubstr(R"(  matmul %C_own, %mine, %B
  for %i in 1 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %out = select %C[(rank + %i) mod 4]
    for %c in 0 .. 2 {
      %mine_rows = slice %mine[%c * 3 .. (%c + 1) * 3]
      %s = p2p send %mine_rows to (rank - %i) mod 4 via %h
      %block_rows = slice %block[%c * 3 .. (%c + 1) * 3]
      %r = p2p recv %block_rows from (rank + %i) mod 4 via %h
      wait %r
      wait %s
      %out_rows = slice %out[%c * 3 .. (%c + 1) * 3]
      matmul %out_rows, %block_rows, %B
    }
  }
)"));
}

TEST(SplitChunks, RoundsDownWhereRowsDoNotDivide) {
  EXPECT_THAT(lowerText(kGather, "chunks=4").after("split-chunks"),
              HasSubstr("%block_rows = slice %block[%c * 6 / 4 .. (%c + 1) * 6 / 4]\n"));
}

TEST(SplitChunks, CutsOneRowEach) {
  EXPECT_THAT(lowerText(kGather, "chunks=6").after("split-chunks"),
              HasSubstr("%block_rows = slice %block[%c .. %c + 1]\n"));
}

TEST(SplitChunks, CutsTheTransfersAloneUnderNone) {
  std::string body = lowerText(kGather, "sequential;chunks=2").body();
  EXPECT_THAT(body, HasSubstr("set_current_stream stream(((%i - 1) * 2 + %c) mod 4)\n"));
  EXPECT_THAT(body, HasSubstr("  matmul %C, %A_all, %B\n"));
}

TEST(SplitChunks, ChangesNothingForOneChunkAStep) {
  EXPECT_EQ(lowerText(kGather, "chunks=1").text, lowerText(kGather).text);
  EXPECT_THAT(lowerText(kGather, "chunks=1").changes, Not(testing::Contains("split-chunks")));
}

TEST(SplitChunks, TapersTheLastStep) {
  EXPECT_THAT(lowerText(kGather, "tail-split=3").after("split-chunks"),
              HasSubstr(R"(  matmul %C_own, %mine, %B
  for %i in 1 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %out = select %C[(rank + %i) mod 4]
    for %c in 0 .. 1 + %i/3 * 2 {
      %mine_rows = slice %mine[%c * 6 / (1 + %i/3 * 2) .. (%c + 1) * 6 / (1 + %i/3 * 2)]
      %s = p2p send %mine_rows to (rank - %i) mod 4 via %h
      %block_rows = slice %block[%c * 6 / (1 + %i/3 * 2) .. (%c + 1) * 6 / (1 + %i/3 * 2)]
      %r = p2p recv %block_rows from (rank + %i) mod 4 via %h
      wait %r
      wait %s
      %out_rows = slice %out[%c * 6 / (1 + %i/3 * 2) .. (%c + 1) * 6 / (1 + %i/3 * 2)]
      matmul %out_rows, %block_rows, %B
    }
  }
)"));
}

TEST(SplitChunks, TapersStepsThatAreCutThemselves) {
  EXPECT_THAT(lowerText(kGather, "chunks=2;tail-split=3").after("split-chunks"),
              HasSubstr("    for %c in 0 .. 2 + %i/3 * 4 {\n"));
}

TEST(SplitChunks, TapersTheOnlyStepOfTwoRanks) {
  std::string text = kGather;
  text.replace(text.find("D = 4"), 5, "D = 2");
  std::string body = lowerText(text, "chunks=2;tail-split=3").after("split-chunks");
  EXPECT_THAT(body, HasSubstr("    for %c in 0 .. 6 {\n"));
  EXPECT_THAT(body, HasSubstr("%block_rows = slice %block[%c .. %c + 1]\n"));
}

// Nothing arrives last that a GEMM would wait for alone.
TEST(SplitChunks, TapersNeitherLocalStagesNorNone) {
  EXPECT_EQ(lowerText(kGather, "sequential;chunks=2;tail-split=100").text,
            lowerText(kGather, "sequential;chunks=2").text);
  EXPECT_EQ(lowerText(kLocal, "tail-split=100").text, lowerText(kLocal).text);
  EXPECT_THAT(lowerText(kLocal, "tail-split=100").changes, Not(testing::Contains("split-chunks")));
}

//===- assign-streams -------------------------------------------------------------------------===//

TEST(AssignStreams, ForksAndJoinsEveryStep) {
  EXPECT_THAT(lowerText(kGather, "streams=2").after("assign-streams"),
              HasSubstr(R"(  set %mine, %own
  set_current_stream stream(0)
  synchronize %main
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  set_current_stream %main
  synchronize stream(0)
  for %i in 1 .. 4 {
    set_current_stream stream(%i mod 2)
    synchronize %main
    %block = select %A_all[(rank + %i) mod 4]
)"));
  EXPECT_THAT(lowerText(kGather, "streams=2").after("assign-streams"),
              HasSubstr(R"(    matmul %out, %block, %B
    set_current_stream %main
    synchronize stream(%i mod 2)
  }
)"));
}

TEST(AssignStreams, DealsOutChunks) {
  EXPECT_THAT(lowerText(kGather, "chunks=2").after("assign-streams"),
              HasSubstr("    for %c in 0 .. 2 {\n"
                        "      set_current_stream stream((%i * 2 + %c) mod 4)\n"
                        "      synchronize %main\n"));
}

TEST(AssignStreams, DealsOutTheChunksOfATaper) {
  EXPECT_THAT(lowerText(kGather, "chunks=2;tail-split=3").after("assign-streams"),
              HasSubstr("      set_current_stream stream((%i * 2 + %c) mod 4)\n"));
  EXPECT_THAT(lowerText(kGather, "ring;tail-split=3").after("assign-streams"),
              HasSubstr("      set_current_stream stream(1 + (%i + %c) mod 3)\n"));
}

TEST(AssignStreams, KeepsTheRingOnAStreamOfItsOwn) {
  std::string body = lowerText(kGather, "ring;streams=3").after("assign-streams");
  EXPECT_THAT(body, HasSubstr("  set_current_stream stream(1)\n  synchronize %main\n"
                              "  %C_own = select %C[rank]\n"));
  EXPECT_THAT(body, HasSubstr(R"(  for %i in 1 .. 4 {
    set_current_stream stream(0)
    synchronize %main
    %block = select %A_all[(rank + %i) mod 4]
    %from = select %A_all[(rank + %i - 1) mod 4]
    %s = p2p send %from to (rank - 1) mod 4 via %h
    %r = p2p recv %block from (rank + 1) mod 4 via %h
    wait %r
    wait %s
    set_current_stream stream(1 + %i mod 2)
    synchronize %main
    synchronize stream(0)
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
    set_current_stream %main
    synchronize stream(0)
    synchronize stream(1 + %i mod 2)
  }
)"));
}

TEST(AssignStreams, PutsTheRingAndItsGemmsOnOneStreamIfThereIsOne) {
  std::string body = lowerText(kGather, "ring;streams=1").after("assign-streams");
  EXPECT_THAT(body, HasSubstr("set_current_stream stream(0)\n"));
  EXPECT_THAT(body, Not(HasSubstr("stream(1")));
}

TEST(AssignStreams, LeavesStraightGemmsOnTheCallersStream) {
  Lowered lowered = lowerText(kStraight);
  EXPECT_EQ(lowered.body(), "  matmul %C, %A, %B\n");
  EXPECT_THAT(lowered.changes, ElementsAre("find-moves", "form-pipelines"));
}

//===- hoist-syncs ----------------------------------------------------------------------------===//

TEST(HoistSyncs, ForksBeforeTheFirstStepAndJoinsAfterTheLast) {
  EXPECT_THAT(lowerText(kGather, "streams=2").after("hoist-syncs"), HasSubstr(R"(  set %mine, %own
  for %j in 0 .. 2 {
    set_current_stream stream(%j)
    synchronize %main
  }
  set_current_stream stream(0)
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  for %i in 1 .. 4 {
    set_current_stream stream(%i mod 2)
    %block = select %A_all[(rank + %i) mod 4]
    %s = p2p send %mine to (rank - %i) mod 4 via %h
    %r = p2p recv %block from (rank + %i) mod 4 via %h
    wait %r
    wait %s
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
  }
  set_current_stream %main
  for %j in 0 .. 2 {
    synchronize stream(%j)
  }
)"));
}

TEST(HoistSyncs, CountsOnlyStreamsInUse) {
  auto streamsOf = [](const char *text, const std::string &options) {
    std::string body = lowerText(text, options).after("hoist-syncs");
    llvm::StringRef rest = llvm::StringRef(body).split("for %j in 0 .. ").second;
    return rest.take_until([](char c) { return c == ' '; }).str();
  };
  EXPECT_EQ(streamsOf(kGather, "streams=9"), "4");
  EXPECT_EQ(streamsOf(kGather, "streams=9;chunks=2"), "8");
  EXPECT_EQ(streamsOf(kGather, "streams=9;chunks=3"), "9");
  EXPECT_EQ(streamsOf(kGather, "sequential;streams=9"), "3");
  EXPECT_EQ(streamsOf(kGather, "ring;streams=9"), "5");
  EXPECT_EQ(streamsOf(kGather, "ring;streams=3"), "3");
  EXPECT_EQ(streamsOf(kLocal, "streams=9"), "2");
  EXPECT_EQ(streamsOf(kGather, "streams=9;tail-split=3"), "6");
  EXPECT_EQ(streamsOf(kGather, "streams=12;chunks=2;tail-split=3"), "12");
  EXPECT_EQ(streamsOf(kGather, "streams=13;chunks=2;tail-split=3"), "12");
}

TEST(HoistSyncs, KeepsWhatOrdersGemmsBehindTheRing) {
  EXPECT_THAT(lowerText(kGather, "ring").after("hoist-syncs"),
              HasSubstr(R"(    set_current_stream stream(1 + %i mod 3)
    synchronize stream(0)
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
  }
  set_current_stream %main
)"));
}

//===- sink-waits -----------------------------------------------------------------------------===//

TEST(SinkWaits, WaitsForSendsBehindTheGemm) {
  EXPECT_THAT(lowerText(kGather).after("sink-waits"), HasSubstr(R"(    wait %r
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
    wait %s
  }
)"));
}

TEST(SinkWaits, TakesTheRingsWaitsToTheGemmsStream) {
  EXPECT_THAT(lowerText(kGather, "ring").after("sink-waits"), HasSubstr(R"(    wait %r
    set_current_stream stream(1 + %i mod 3)
    synchronize stream(0)
    %out = select %C[(rank + %i) mod 4]
    matmul %out, %block, %B
    wait %s
  }
)"));
}

TEST(SinkWaits, HasNothingToPassUnderNone) {
  EXPECT_THAT(lowerText(kGather, "sequential").changes, Not(testing::Contains("sink-waits")));
}

//===- simplify -------------------------------------------------------------------------------===//

const char *const kPair = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  output %C
}
)";

TEST(Simplify, InlinesLoopsOfOneTrip) {
  EXPECT_EQ(lowerText(kPair, "streams=1").body(), R"(  %A_all = allocate symmetric f32[2, 6, 5]
  %h = share_mem_handles get %A_all
  %main = get_current_stream
  %mine = select %A_all[rank]
  %own = select %A[0]
  set %mine, %own
  set_current_stream stream(0)
  synchronize %main
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  %block = select %A_all[(rank + 1) mod 2]
  %s = p2p send %mine to (rank - 1) mod 2 via %h
  %r = p2p recv %block from (rank + 1) mod 2 via %h
  wait %r
  %out = select %C[(rank + 1) mod 2]
  matmul %out, %block, %B
  wait %s
  set_current_stream %main
  synchronize stream(0)
)");
}

TEST(Simplify, LeavesTheOnlyStreamOfALoopAlone) {
  Lowered lowered = lowerText(kGather, "streams=1");
  EXPECT_THAT(lowered.body(), HasSubstr(R"(  set_current_stream stream(0)
  synchronize %main
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  for %i in 1 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
)"));
}

// Nodes of two loops that have the same name may stand in one block afterwards.
TEST(Simplify, KeepsNamesApart) {
  Lowered lowered = lowerText(R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %X = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %X, %B : f32[Stream{D}, 6, 3]
  output %C, %E
}
)");
  EXPECT_THAT(lowered.body(), HasSubstr("  %block = select %A_all[(rank + 1) mod 2]\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  %block_2 = select %X_all[(rank + 1) mod 2]\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  %r_2 = p2p recv %block_2 from (rank + 1) mod 2 via %h\n"
                                        "  wait %r_2\n"));
}

TEST(Simplify, ChangesNothingWhereNothingIsLeftOver) {
  EXPECT_THAT(lowerText(kLocal).changes,
              ElementsAre("find-moves", "form-pipelines", "assign-streams", "hoist-syncs"));
}

TEST(Simplify, TakesAFusionWithoutGemms) {
  Lowered lowered = lowerText("fusion @f(D = 4) {\n  mesh [0 .. D)\n  %A = input f32[3]\n"
                              "  output %A\n}\n");
  EXPECT_EQ(lowered.body(), "  set %A_2, %A\n");
}

} // namespace
} // namespace braid
