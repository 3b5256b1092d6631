//===- tests/lowering/passes_test.cpp - what each pass makes of a small fusion ----------------===//

#include "tests/lowering/support.h"
#include "tests/support/case_file.h"
#include "tests/support/configured.h"

#include "llvm/ADT/StringExtras.h"

#include <gmock/gmock.h>

#include <map>

namespace braid {
namespace {

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

const char *const kPair = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %C = matmul %A, %B : f32[Stream{D}, 6, 3]
  output %C
}
)";

std::string programAfter(const std::string &text) {
  static const std::map<llvm::StringRef, const char *> fusions = {
      {"gather", kGather}, {"local", kLocal}, {"straight", kStraight}, {"pair", kPair}};
  llvm::SmallVector<llvm::StringRef, 3> fields;
  llvm::StringRef(text).trim().split(fields, '|');
  const llvm::StringRef pass = fields[2].trim();
  const Lowered lowered = lowerText(fusions.at(fields[0].trim()), fields[1].trim().str());
  if (pass == "changes")
    return llvm::join(lowered.changes, "\n") + "\n";
  return pass == "result" ? lowered.body() : lowered.after(pass);
}

TEST(Passes, MakeWhatTheCasesSay) {
  test::checkCases("tests/lowering/inputs/passes.cases", programAfter);
}

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

TEST(InsertTransfers, PostsReceivesFirstUnderPut) {
  for (const Preset &preset : test::pairPresets()) {
    std::string body =
        lowerText(kGather, preset.name.str() + ";protocol=put").after("insert-transfers");
    EXPECT_THAT(body, HasSubstr("%h = share_mem_handles put %A_all\n"));
    EXPECT_LT(body.find("p2p recv"), body.find("p2p send"));
  }
}

TEST(SplitChunks, ChangesNothingForOneChunkAStep) {
  EXPECT_EQ(lowerText(kGather, "chunks=1").text, lowerText(kGather).text);
  EXPECT_THAT(lowerText(kGather, "chunks=1").changes, Not(testing::Contains("split-chunks")));
}

// Nothing arrives last that a GEMM would wait for alone.
TEST(SplitChunks, TapersNeitherLocalStagesNorNone) {
  EXPECT_EQ(lowerText(kGather, "sequential;chunks=2;tail-split=100").text,
            lowerText(kGather, "sequential;chunks=2").text);
  EXPECT_EQ(lowerText(kLocal, "tail-split=100").text, lowerText(kLocal).text);
  EXPECT_THAT(lowerText(kLocal, "tail-split=100").changes, Not(testing::Contains("split-chunks")));
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

TEST(Simplify, TakesAFusionWithoutGemms) {
  Lowered lowered = lowerText("fusion @f(D = 4) {\n  mesh [0 .. D)\n  %A = input f32[3]\n"
                              "  output %A\n}\n");
  EXPECT_EQ(lowered.body(), "  set %A_2, %A\n");
}

} // namespace
} // namespace braid
