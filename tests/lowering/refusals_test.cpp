//===- tests/lowering/refusals_test.cpp - what cannot be lowered, and what is said ------------===//

#include "tests/lowering/support.h"

#include "llvm/ADT/Twine.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

/// A fusion on D = 4 devices with these nodes, the first on line 3.
std::string fusion(llvm::StringRef nodes) {
  return ("fusion @f(D = 4) {\n  mesh [0 .. D)\n" + nodes + "}\n").str();
}

struct Refusal {
  const char *name;
  const char *nodes;
  const char *message; ///< "" if it is accepted
};

void PrintTo(const Refusal &refusal, std::ostream *os) { *os << refusal.name; }

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, SaysAxisReasonAndWhatWouldDo) {
  Lowered lowered = lowerText(fusion(GetParam().nodes));
  EXPECT_EQ(lowered.messages, GetParam().message);
  bool isAccepted = lowered.messages.empty();
  EXPECT_EQ(lowered.status.isOk(), isAccepted);
  EXPECT_EQ(lowered.text.empty(), !isAccepted);
  if (isAccepted)
    return;
  EXPECT_EQ(lowered.status.code(), StatusCode::Unsupported);
  EXPECT_EQ(lowered.status.message(), "cannot lower @f");
}

const Refusal kRefusals[] = {
    {"ContractedInA",
     R"(  %A = input f32[8, DIDx{D}]
  %B = input f32[D, 6]
  %C = matmul %A, %B : f32[8, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %A (f32[8, DIDx{D}]) is contracted but split over devices, "
     "with one entry on each; two contracted axes, DIDx{D} and the rest, would be accepted\n"},
    {"ContractedInB",
     R"(  %A = input f32[8, D]
  %B = input f32[DIDx{D}, 6]
  %C = matmul %A, %B : f32[8, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 0 of %B (f32[DIDx{D}, 6]) is contracted but split over devices, "
     "with one entry on each; two contracted axes, DIDx{D} and the rest, would be accepted\n"},
    {"ContractedInLinear",
     R"(  %x = input f32[8, D]
  %w = input f32[6, DIDx{D}]
  %y = linear %x, %w : f32[8, 6]
  output %y
)",
     "5:3: cannot lower %y: axis 1 of %w (f32[6, DIDx{D}]) is contracted but split over devices, "
     "with one entry on each; two contracted axes, DIDx{D} and the rest, would be accepted\n"},
    {"ReducedRowsOfOneDevice",
     R"(  %A = input f32[DIDx{D}, 6, D, 5]
  %B = input f32[DIDx{D}, 5, 3]
  %C = matmul %A, %B : f32[DIDx{D}, 6, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 2 of %A (f32[DIDx{D}, 6, D, 5]) is whole on every device, and the "
     "part of one does not lie in one piece; DIDx{D} as axis 2 of %A would be accepted\n"
     "5:3: cannot lower %C: axis 0 of %A (f32[DIDx{D}, 6, D, 5]) is split over devices already; a "
     "plain axis 0 of %A would be accepted\n"},
    {"ReducedOfOneDevicesColumns",
     R"(  %A = input f32[6, DIDx{D}, 5]
  %B = input f32[D, 5, DIDx{D}, 3]
  %C = matmul %A, %B : f32[6, D, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 2 of %B (f32[D, 5, DIDx{D}, 3]) is split over devices, so that no "
     "device has all columns of a partial result; a plain axis 2 of %B would be accepted\n"},
    {"ReducedToColumns",
     R"(  %A = input f32[6, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, D, 3]
  %C = matmul %A, %B : f32[6, DIDx{D}, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %C (f32[6, DIDx{D}, 3]) is split over devices, and what one "
     "of them keeps of a partial result does not lie in one piece; a leading DIDx axis, or none, "
     "would be accepted\n"},
    {"ReducedLinearOfWholeWeights",
     R"(  %x = input f32[6, DIDx{D}, 5]
  %w = input f32[3, D, 5]
  %y = linear %x, %w : f32[6, 3]
  output %y
)",
     "5:3: cannot lower %y: axis 1 of %w (f32[3, D, 5]) is whole on every device, and the part of "
     "one does not lie in one piece; DIDx{D} as axis 1 of %w would be accepted\n"},
    {"GatherNotLeading",
     R"(  %A = input f32[2, DIDx{D}, 3, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[2, D, 3, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %A (f32[2, DIDx{D}, 3, 5]) is split over devices but axis 1 "
     "of %C (f32[2, D, 3, 6]) is not, and only a leading axis is gathered, or the one behind it "
     "for "
     "each slice of a Stream axis; DIDx{D} as axis 1 of %C, or a %A with its DIDx axis first, as "
     "in examples/ag_matmul.braid, would be accepted\n"},
    {"ScatterOfB",
     R"(  %A = input f32[3, 5]
  %B = input f32[5, D, 2]
  %C = matmul %A, %B : f32[3, DIDx{D}, 2]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %B (f32[5, D, 2]) is whole on every device but axis 1 of %C "
     "(f32[3, DIDx{D}, 2]) is split over devices, and the part of one does not lie in one piece; "
     "DIDx{D} as axis 1 of %B, or a plain axis 1 of "
     "%C, "
     "would be accepted\n"},
    {"GatherOfB",
     R"(  %A = input f32[3, 5]
  %B = input f32[5, DIDx{D}, 2]
  %C = matmul %A, %B : f32[3, D, 2]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %B (f32[5, DIDx{D}, 2]) is split over devices but axis 1 of "
     "%C "
     "(f32[3, D, 2]) is not, and only %A is gathered; DIDx{D} as axis 1 of %C would be accepted\n"},
    {"GatherOfW",
     R"(  %x = input f32[3, 5]
  %w = input f32[DIDx{D}, 2, 5]
  %y = linear %x, %w : f32[3, D, 2]
  output %y
)",
     "5:3: cannot lower %y: axis 0 of %w (f32[DIDx{D}, 2, 5]) is split over devices but axis 1 of "
     "%y "
     "(f32[3, D, 2]) is not, and only %x is gathered; DIDx{D} as axis 1 of %y would be accepted\n"},
    {"StreamNotLeading",
     R"(  %A = input f32[3, 7, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[3, Stream{7}, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %C (f32[3, Stream{7}, 6]) is Stream, but only a leading axis "
     "that comes from %A is produced slice by slice; a plain axis 1 of %C would be accepted\n"},
    {"StreamFromB",
     R"(  %A = input f32[5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[Stream{6}]
  output %C
)",
     "5:3: cannot lower %C: axis 0 of %C (f32[Stream{6}]) is Stream, but only a leading axis that "
     "comes from %A is produced slice by slice; a plain axis 0 of %C would be accepted\n"},
    {"SplitBias",
     R"(  %x = input f32[3, 5]
  %w = input f32[D, 2, 5]
  %bias = input f32[DIDx{D}, 2]
  %y = linear %x, %w, %bias : f32[3, D, 2]
  output %y
)",
     "6:3: cannot lower %y: axis 0 of %bias (f32[DIDx{D}, 2]) is split over devices but axis 1 of "
     "%y "
     "(f32[3, D, 2]), to which it is added, is whole; a plain axis 0 of %bias would be accepted\n"},
    {"WholeBias",
     R"(  %x = input f32[3, 5]
  %w = input f32[DIDx{D}, 2, 5]
  %bias = input f32[D, 2]
  %y = linear %x, %w, %bias : f32[3, DIDx{D}, 2]
  output %y
)",
     "6:3: cannot lower %y: axis 0 of %bias (f32[D, 2]) is whole on every device but axis 1 of %y "
     "(f32[3, DIDx{D}, 2]), to which it is added, is split; DIDx{D} as axis 0 of %bias would be "
     "accepted\n"},
    {"SplitBiasWithSplitColumns",
     R"(  %x = input f32[3, 5]
  %w = input f32[DIDx{D}, 2, 5]
  %bias = input f32[DIDx{D}, 2]
  %y = linear %x, %w, %bias : f32[3, DIDx{D}, 2]
  output %y
)",
     ""},
    {"SquareOfOneTensor",
     R"(  %A = input f32[3, 3]
  %C = matmul %A, %A : f32[Stream{3}, 3]
  output %C
)",
     ""},
};

INSTANTIATE_TEST_SUITE_P(All, Refusals, testing::ValuesIn(kRefusals),
                         [](const auto &test) { return std::string(test.param.name); });

TEST(RefusalsTogether, AreAllReported) {
  Lowered lowered = lowerText(fusion(R"(  %A = input f32[DIDx{D}, 3, 5]
  %B = input f32[5, 6]
  %W = input f32[5, D, 2]
  %C = matmul %A, %B : f32[D, Stream{3}, 6]
  %E = matmul %A, %W : f32[Stream{D}, 3, D, 2]
  %H = matmul %A, %W : f32[D, Stream{3}, D, 2]
  output %C, %E, %H
)"));
  EXPECT_EQ(
      lowered.messages,
      "6:3: cannot lower %C: axis 1 of %C (f32[D, Stream{3}, 6]) is Stream, but only a leading "
      "axis that comes from %A is produced slice by slice; a plain axis 1 of %C would be "
      "accepted\n"
      "8:3: cannot lower %H: axis 1 of %H (f32[D, Stream{3}, D, 2]) is Stream, but only a leading "
      "axis that comes from %A is produced slice by slice; a plain axis 1 of %H would be "
      "accepted\n");
}

// On one device every axis is whole, whatever its kind.
TEST(RefusalsTogether, VanishOnOneDevice) {
  Lowered lowered = lowerText(R"(fusion @f(D = 1) {
  mesh [0 .. D)
  %A = input f32[3, DIDx{D}]
  %B = input f32[D, 6]
  %C = matmul %A, %B : f32[Stream{3}, 6]
  output %C
}
)");
  EXPECT_TRUE(lowered.status.isOk()) << lowered.messages;
  EXPECT_EQ(lowered.messages, "");
}

//===- Chunks ---------------------------------------------------------------------------------===//

std::string rows(int64_t count) {
  return fusion(("  %A = input f32[DIDx{D}, " + llvm::Twine(count) +
                 ", 5]\n  %B = input f32[5, 6]\n  %C = matmul %A, %B : f32[Stream{D}, " +
                 llvm::Twine(count) + ", 6]\n  output %C\n")
                    .str());
}

void expectRefused(const std::string &text, const std::string &options,
                   const std::string &message) {
  Lowered lowered = lowerText(text, options);
  EXPECT_EQ(lowered.messages, message);
  EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(), "cannot lower @f with these options");
}

TEST(Chunks, AreNoMoreThanTheRows) {
  expectRefused(rows(6), "chunks=7",
                "5:3: cannot chunk %A by 7: a step's block has only 6 rows; 1 up to 6 would be "
                "accepted\n");
  expectRefused(rows(1), "chunks=2",
                "5:3: cannot chunk %A by 2: a step's block has only 1 row; only 1 would be "
                "accepted\n");
}

TEST(Chunks, NeedRows) {
  std::string vector = fusion("  %A = input f32[DIDx{D}, 5]\n  %B = input f32[5, 6]\n"
                              "  %C = matmul %A, %B : f32[Stream{D}, 6]\n  output %C\n");
  expectRefused(vector, "chunks=2",
                "5:3: cannot chunk %A by 2: a step's block has no rows to cut; only 1 would be "
                "accepted\n");
  EXPECT_TRUE(lowerText(vector, "chunks=1").status.isOk());
}

TEST(Chunks, NeedSteps) {
  expectRefused(fusion("  %A = input f32[3, 5]\n  %B = input f32[5, 6]\n"
                       "  %C = matmul %A, %B : f32[3, 6]\n  output %C\n"),
                "chunks=4",
                "1:1: cannot chunk @f by 4: no result has a Stream axis; only 1 would be "
                "accepted\n");
}

//===- Tail split -----------------------------------------------------------------------------===//

TEST(TailSplit, LeavesARowForEachChunk) {
  expectRefused(
      rows(6), "tail-split=7",
      "5:3: cannot split the tail of %A by 7: a step's block has only 6 rows; 1 up to 6 would be "
      "accepted\n");
  expectRefused(rows(7), "chunks=2;tail-split=4",
                "5:3: cannot split the tail of %A by 4: a step's block has only 7 rows, in 2 "
                "chunks already; 1 "
                "up to 3 would be accepted\n");
  expectRefused(rows(1), "tail-split=9223372036854775807",
                "5:3: cannot split the tail of %A by 9223372036854775807: a step's block has only "
                "1 row; only "
                "1 would be accepted\n");
  EXPECT_TRUE(lowerText(rows(6), "tail-split=6").status.isOk());
  EXPECT_TRUE(lowerText(rows(7), "chunks=2;tail-split=3").status.isOk());
}

TEST(TailSplit, NeedsRows) {
  expectRefused(
      fusion("  %A = input f32[DIDx{D}, 5]\n  %B = input f32[5, 6]\n"
             "  %C = matmul %A, %B : f32[Stream{D}, 6]\n  output %C\n"),
      "tail-split=2",
      "5:3: cannot split the tail of %A by 2: a step's block has no rows to cut; only 1 would be "
      "accepted\n");
}

TEST(TailSplit, NeedsSteps) {
  expectRefused(
      fusion("  %A = input f32[3, 5]\n  %B = input f32[5, 6]\n"
             "  %C = matmul %A, %B : f32[3, 6]\n  output %C\n"),
      "tail-split=2",
      "1:1: cannot split the tail of @f by 2: no result has a Stream axis; only 1 would be "
      "accepted\n");
}

//===- Schedules ------------------------------------------------------------------------------===//

TEST(Schedules, RefuseFieldsThatCannotBeHadTogether) {
  expectRefused(rows(6), "pairwise;order=ring",
                "5:3: cannot gather %A: order=ring takes placement=ring, got each\n");
  expectRefused(rows(6), "ring;placement=shared",
                "5:3: cannot gather %A: order=ring takes placement=ring, got shared\n");
  expectRefused(rows(6), "batched;placement=each",
                "5:3: cannot gather %A: posting=all takes placement=shared or caller, got each\n");
  expectRefused(rows(6), "coalesced;order=shift",
                "5:3: cannot gather %A: granularity=geometric takes order=xor, got shift\n");
}

TEST(Schedules, AreForStagesThatMakeTensors) {
  expectRefused(rows(6), "Z=ring",
                "1:1: the schedule names %Z, but no stage makes it; stages make %C\n");
  expectRefused(rows(6), "C=ring,%C=pairwise", "5:3: the schedule names the stage of %C twice\n");
}

} // namespace
} // namespace braid
