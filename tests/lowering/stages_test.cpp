//===- tests/lowering/stages_test.cpp - several GEMMs in one fusion ---------------------------===//

#include "tests/lowering/support.h"

#include "llvm/ADT/Twine.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using testing::HasSubstr;

/// A fusion on D = 4 devices with two gathered and two replicated inputs.
std::string fusion(llvm::StringRef gemms) {
  return (R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %X = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %W = input f32[3, 5]
)" + gemms +
          "}\n")
      .str();
}

std::string formed(llvm::StringRef gemms, const std::string &options = "") {
  Lowered lowered = lowerText(fusion(gemms), options);
  EXPECT_TRUE(lowered.status.isOk()) << lowered.status.message() << lowered.messages;
  return lowered.after("form-pipelines");
}

TEST(Stages, GatherASharedOperandOnce) {
  EXPECT_EQ(formed(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %T = matmul %X, %B : f32[DIDx{D}, 6, 3]
  %E = linear %A, %W : f32[Stream{D}, 6, 3]
  output %C, %T, %E
)"),
            R"(  %A_all = allocate symmetric f32[4, 6, 5]
  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %C_out = select %C[(rank + %i) mod 4]
    matmul %C_out, %block, %B
    %E_out = select %E[(rank + %i) mod 4]
    linear %E_out, %block, %W
  }
  matmul %T, %X, %B
)");
}

TEST(Stages, FeedOneGemmToTheNextSliceBySlice) {
  EXPECT_EQ(formed(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %C, %W : f32[Stream{D}, 6, 5]
  %F = matmul %E, %B : f32[Stream{D}, 6, 3]
  output %F
)"),
            R"(  %C = allocate device f32[4, 6, 3]
  %E = allocate device f32[4, 6, 5]
  %A_all = allocate symmetric f32[4, 6, 5]
  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %C_out = select %C[(rank + %i) mod 4]
    matmul %C_out, %block, %B
    %E_out = select %E[(rank + %i) mod 4]
    matmul %E_out, %C_out, %W
    %F_out = select %F[(rank + %i) mod 4]
    matmul %F_out, %E_out, %B
  }
)");
}

TEST(Stages, PeelChainsWhole) {
  Lowered lowered = lowerText(fusion(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %C, %W : f32[Stream{D}, 6, 5]
  output %C, %E
)"));
  EXPECT_THAT(lowered.after("peel-own-step"), HasSubstr(R"(  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  %E_own = select %E[rank]
  matmul %E_own, %C_own, %W
  for %i in 1 .. 4 {
)"));
}

TEST(Stages, ChainsStayInOrderUnderNone) {
  EXPECT_THAT(formed(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %C, %W : f32[Stream{D}, 6, 5]
  output %C, %E
)",
                     "sequential"),
              HasSubstr("  matmul %C, %A_all, %B\n  matmul %E, %C, %W\n"));
}

TEST(Stages, WaitForWholeOperandsToBeComputed) {
  // V is the second operand of E, so all of it has to be there before any slice of E.
  EXPECT_EQ(formed(R"(  %V = linear %B, %B : f32[Stream{5}, 5]
  %E = matmul %A, %V : f32[Stream{D}, 6, 5]
  output %E
)"),
            R"(  %V = allocate device f32[5, 5]
  %A_all = allocate symmetric f32[4, 6, 5]
  for %i in 0 .. 5 {
    %block = select %B[%i]
    %out = select %V[%i]
    linear %out, %block, %B
  }
  for %i in 0 .. 4 {
    %block = select %A_all[(rank + %i) mod 4]
    %out = select %E[(rank + %i) mod 4]
    matmul %out, %block, %V
  }
)");
}

TEST(Stages, UseWhatWasGatheredBefore) {
  // E needs V, which needs C, which is computed while A is gathered.
  Lowered lowered = lowerText(fusion(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %V = matmul %W, %B : f32[3, 3]
  %G = linear %B, %V : f32[5, 3]
  %E = matmul %A, %G : f32[Stream{D}, 6, 3]
  output %C, %E
)"));
  EXPECT_THAT(lowered.after("insert-transfers"), HasSubstr("share_mem_handles get %A_all\n"));
  EXPECT_THAT(lowered.after("insert-transfers"), HasSubstr(R"(  matmul %V, %W, %B
  linear %G, %B, %V
  for %i in 0 .. 4 {
    %block = select %A_all[%i]
    %out = select %E[%i]
    matmul %out, %block, %G
  }
)"));
}

TEST(Stages, GatherWhatWasComputed) {
  Lowered lowered = lowerText(fusion(R"(  %T = matmul %X, %B : f32[DIDx{D}, 6, 3]
  %E = matmul %T, %W : f32[Stream{D}, 6, 5]
  output %E
)"));
  EXPECT_THAT(lowered.after("insert-transfers"), HasSubstr(R"(  matmul %T, %X, %B
  %mine = select %T_all[rank]
  %own = select %T[0]
  set %mine, %own
  for %i in 0 .. 4 {
)"));
}

TEST(Stages, TellSeveralGatheredOperandsApart) {
  Lowered lowered = lowerText(fusion(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %X, %B : f32[Stream{D}, 6, 3]
  output %C, %E
)"));
  EXPECT_THAT(lowered.body(), HasSubstr("%h = share_mem_handles get %A_all, %X_all\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  %A_mine = select %A_all[rank]\n"
                                        "  %A_own = select %A[0]\n  set %A_mine, %A_own\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  %X_mine = select %X_all[rank]\n"));
}

TEST(Stages, RunAfterOneAnother) {
  Lowered lowered = lowerText(fusion(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %X, %B : f32[Stream{D}, 6, 3]
  output %C, %E
)"));
  EXPECT_THAT(lowered.body(), HasSubstr(R"(    wait %s
  }
  set_current_stream %main
  for %j in 0 .. 4 {
    synchronize stream(%j)
  }
  %X_mine = select %X_all[rank]
  %X_own = select %X[0]
  set %X_mine, %X_own
  for %j in 0 .. 4 {
    set_current_stream stream(%j)
    synchronize %main
  }
  set_current_stream stream(0)
)"));
}

TEST(Stages, ReadAStreamedGemmWholeAfterItsPipeline) {
  EXPECT_THAT(formed(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %E = matmul %C, %W : f32[D, 6, 5]
  output %E
)"),
              HasSubstr("    matmul %out, %block, %B\n  }\n  matmul %E, %C, %W\n"));
}

TEST(Stages, CheckChunksOfEveryStage) {
  Lowered lowered = lowerText(fusion(R"(  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  %V = linear %B, %B : f32[Stream{5}, 5]
  output %C, %V
)"),
                              "chunks=2");
  EXPECT_EQ(lowered.messages,
            "8:3: cannot chunk %B by 2: a step's block has no rows to cut; only 1 "
            "would be accepted\n");
}

TEST(Stages, CopyOutputsThatAreInputs) {
  Lowered lowered = lowerText(fusion("  output %A, %B\n"));
  EXPECT_THAT(lowered.text, HasSubstr(" -> (%A_2: f32[1, 6, 5], %B_2: f32[5, 3]) {\n"));
  EXPECT_EQ(lowered.body(), "  set %A_2, %A\n  set %B_2, %B\n");
}

// A fusion's names are free; none may be hidden by, or hide, one that lowering makes up.
TEST(Stages, KeepOutOfTheWayOfTheFusionsNames) {
  Lowered lowered = lowerText(R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %mine = input f32[DIDx{D}, 6, 5]
  %i = input f32[5, 3]
  %out = matmul %mine, %i : f32[Stream{D}, 6, 3]
  %out_out = linear %out, %i : f32[Stream{D}, 6, 5]
  %mine_all = matmul %mine, %i : f32[Stream{D}, 6, 3]
  %main = linear %mine_all, %i : f32[Stream{D}, 6, 5]
  output %out, %main, %out_out
}
)",
                              "chunks=2");
  ASSERT_TRUE(lowered.status.isOk()) << lowered.status.message();
  EXPECT_THAT(lowered.body(), HasSubstr("  %mine_all_2 = allocate symmetric f32[4, 6, 5]\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  %mine_2 = select %mine_all_2[rank]\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("  for %i_2 in 1 .. 4 {\n"));
  EXPECT_THAT(lowered.body(), HasSubstr("    %out_out_2 = select %out[(rank + %i_2) mod 4]\n"
                                        "    %out_out_out = select %out_out["));
  EXPECT_THAT(lowered.body(), HasSubstr("matmul %out_out_2_rows, %block_rows, %i\n"));
}

} // namespace
} // namespace braid
