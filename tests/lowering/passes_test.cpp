//===- tests/lowering/passes_test.cpp - the effect of each pass on a small fusion -------------===//

#include "tests/lowering/support.h"
#include "tests/support/case_file.h"
#include "tests/support/configured.h"

#include "llvm/ADT/StringExtras.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using testing::HasSubstr;

const char *const kSeveral = R"(fusion @f(D = 4) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 6, 5]
  %X = input f32[DIDx{D}, 6, 5]
  %B = input f32[5, 3]
  %W = input f32[3, 5]
)";

std::string smallFusion(const std::string &name) {
  return test::fusionNamed("tests/lowering/inputs/passes.braid", name);
}

std::string programAfter(const std::string &text) {
  const auto [line, nodes] = llvm::StringRef(text).split('\n');
  llvm::SmallVector<llvm::StringRef, 3> fields;
  line.split(fields, '|');
  const llvm::StringRef show = fields[2].trim();
  const std::string name = fields[0].trim().str();
  const std::string fusion = name == "text"      ? nodes.str()
                             : name == "several" ? kSeveral + nodes.str() + "}\n"
                                                 : smallFusion(name);
  const Lowered lowered = lowerText(fusion, fields[1].trim().str());
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
  EXPECT_THAT(lowerText(smallFusion("gather"), "ring").text, HasSubstr("program @gather_ring "));
  EXPECT_THAT(lowerText(smallFusion("gather"), "sequential").text,
              HasSubstr("program @gather_sequential "));
  EXPECT_THAT(lowerText(smallFusion("local")).text, HasSubstr("program @local_local "));
  EXPECT_THAT(lowerText(smallFusion("straight")).text, HasSubstr("program @straight_local "));
}

TEST(InsertTransfers, PostsReceivesFirstUnderPut) {
  for (const Preset &preset : test::pairPresets()) {
    std::string body = lowerText(smallFusion("gather"), preset.name.str() + ";protocol=put")
                           .after("insert-transfers");
    EXPECT_THAT(body, HasSubstr("%h = share_mem_handles put %A_all\n"));
    EXPECT_LT(body.find("p2p recv"), body.find("p2p send"));
  }
}

TEST(SplitChunks, ChangesNothingForOneChunkAStep) {
  EXPECT_EQ(lowerText(smallFusion("gather"), "chunks=1").text,
            lowerText(smallFusion("gather")).text);
}

// In these schedules, no GEMM waits only for the last block.
TEST(SplitChunks, TapersNeitherLocalStagesNorNone) {
  EXPECT_EQ(lowerText(smallFusion("gather"), "sequential;chunks=2;tail-split=100").text,
            lowerText(smallFusion("gather"), "sequential;chunks=2").text);
  EXPECT_EQ(lowerText(smallFusion("local"), "tail-split=100").text,
            lowerText(smallFusion("local")).text);
}

TEST(AssignStreams, CountsOnlyStreamsInUse) {
  auto streamsOf = [](const char *name, const std::string &options) {
    std::string body = lowerText(smallFusion(name), options).after("assign-streams");
    llvm::StringRef rest = llvm::StringRef(body).split("for %j in 0 .. ").second;
    return rest.take_until([](char c) { return c == ' '; }).str();
  };
  EXPECT_EQ(streamsOf("gather", "streams=9"), "4");
  EXPECT_EQ(streamsOf("gather", "streams=9;chunks=2"), "8");
  EXPECT_EQ(streamsOf("gather", "streams=9;chunks=3"), "9");
  EXPECT_EQ(streamsOf("gather", "sequential;streams=9"), "3");
  EXPECT_EQ(streamsOf("gather", "ring;streams=9"), "5");
  EXPECT_EQ(streamsOf("gather", "ring;streams=3"), "3");
  EXPECT_EQ(streamsOf("local", "streams=9"), "2");
  EXPECT_EQ(streamsOf("gather", "streams=9;tail-split=3"), "6");
  EXPECT_EQ(streamsOf("gather", "streams=12;chunks=2;tail-split=3"), "12");
  EXPECT_EQ(streamsOf("gather", "streams=13;chunks=2;tail-split=3"), "12");
}

} // namespace
} // namespace braid
