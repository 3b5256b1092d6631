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

const char *const kSeveral = R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %X = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %W = input f32[3, 5]
)";

std::string programAfter(const std::string &text) {
  const auto [line, nodes] = llvm::StringRef(text).split('\n');
  const std::map<llvm::StringRef, std::string> fusions = {
      {"gather", kGather}, {"local", kLocal},     {"straight", kStraight},
      {"pair", kPair},     {"text", nodes.str()}, {"several", kSeveral + nodes.str() + "}\n"}};
  llvm::SmallVector<llvm::StringRef, 3> fields;
  line.split(fields, '|');
  const llvm::StringRef show = fields[2].trim();
  const Lowered lowered = lowerText(fusions.at(fields[0].trim()), fields[1].trim().str());
  return show == "changes"    ? llvm::join(lowered.changes, "\n") + "\n"
         : show == "messages" ? lowered.messages
         : show == "program"  ? lowered.text
         : show == "result"   ? lowered.body()
                              : lowered.after(show);
}

TEST(Passes, MakeWhatTheCasesSay) {
  test::checkCases("tests/lowering/inputs/passes.cases", programAfter);
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

} // namespace
} // namespace braid
