//===- tests/lowering/refusals_test.cpp - what cannot be lowered, and what is said ------------===//

#include "tests/lowering/support.h"
#include "tests/support/configured.h"
#include "tests/support/examples.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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
     "with one entry on each, where partial results take two axes, DIDx and the rest; %A : f32[8, "
     "D] would be accepted\n"},
    {"ContractedInB",
     R"(  %A = input f32[8, D]
  %B = input f32[DIDx{D}, 6]
  %C = matmul %A, %B : f32[8, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 0 of %B (f32[DIDx{D}, 6]) is contracted but split over devices, "
     "with one entry on each, where partial results take two axes, DIDx and the rest; %B : f32[D, "
     "6] would be accepted\n"},
    {"ContractedInLinear",
     R"(  %x = input f32[8, D]
  %w = input f32[6, DIDx{D}]
  %y = linear %x, %w : f32[8, 6]
  output %y
)",
     "5:3: cannot lower %y: axis 1 of %w (f32[6, DIDx{D}]) is contracted but split over devices, "
     "with one entry on each, where partial results take two axes, DIDx and the rest; %w : f32[6, "
     "D] would be accepted\n"},
    {"ReducedRowsOfOneDevice",
     R"(  %A = input f32[DIDx{D}, 6, D, 5]
  %B = input f32[DIDx{D}, 5, 3]
  %C = matmul %A, %B : f32[DIDx{D}, 6, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 2 of %A (f32[DIDx{D}, 6, D, 5]) is whole on every device, and the "
     "part of one does not lie in one piece; axis 0 of %A (f32[DIDx{D}, 6, D, 5]) is split over "
     "devices already; %B : f32[D, 5, 3] would be accepted\n"},
    {"ReducedOfOneDevicesColumns",
     R"(  %A = input f32[6, DIDx{D}, 5]
  %B = input f32[D, 5, DIDx{D}, 3]
  %C = matmul %A, %B : f32[6, D, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 2 of %B (f32[D, 5, DIDx{D}, 3]) is split over devices, so that no "
     "device has all columns of a partial result; %B : f32[D, 5, D, 3] would be accepted\n"},
    {"ReducedToColumns",
     R"(  %A = input f32[6, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, D, 3]
  %C = matmul %A, %B : f32[6, DIDx{D}, 3]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %C (f32[6, DIDx{D}, 3]) is split over devices, and what one "
     "of them keeps of a partial result does not lie in one piece; %C : f32[6, D, 3], or %A : "
     "f32[6, D, 5] and %B : f32[D, 5, DIDx{D}, 3], would be accepted\n"},
    {"ReducedLinearOfWholeWeights",
     R"(  %x = input f32[6, DIDx{D}, 5]
  %w = input f32[3, D, 5]
  %y = linear %x, %w : f32[6, 3]
  output %y
)",
     "5:3: cannot lower %y: axis 1 of %w (f32[3, D, 5]) is whole on every device, and the part of "
     "one does not lie in one piece; %w : f32[3, DIDx{D}, 5] would be accepted\n"},
    {"GatherNotLeading",
     R"(  %A = input f32[2, DIDx{D}, 3, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[2, D, 3, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %A (f32[2, DIDx{D}, 3, 5]) is split over devices but axis 1 "
     "of %C (f32[2, D, 3, 6]) is not, and only a leading axis is gathered, or the one behind it "
     "for each slice of a Stream axis; %C : f32[Stream{2}, D, 3, 6], or %A : f32[2, D, 3, 5], "
     "would be accepted\n"},
    {"ScatterOfB",
     R"(  %A = input f32[3, 5]
  %B = input f32[5, D, 2]
  %C = matmul %A, %B : f32[3, DIDx{D}, 2]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %B (f32[5, D, 2]) is whole on every device but axis 1 of %C "
     "(f32[3, DIDx{D}, 2]) is split over devices, and the part of one does not lie in one piece; "
     "%C : f32[3, D, 2], or %B : f32[5, DIDx{D}, 2], would be accepted\n"},
    {"GatherOfB",
     R"(  %A = input f32[3, 5]
  %B = input f32[5, DIDx{D}, 2]
  %C = matmul %A, %B : f32[3, D, 2]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %B (f32[5, DIDx{D}, 2]) is split over devices but axis 1 of "
     "%C (f32[3, D, 2]) is not, and only %A is gathered; %C : f32[3, DIDx{D}, 2], or %B : f32[5, "
     "D, 2], would be accepted\n"},
    {"GatherOfW",
     R"(  %x = input f32[3, 5]
  %w = input f32[DIDx{D}, 2, 5]
  %y = linear %x, %w : f32[3, D, 2]
  output %y
)",
     "5:3: cannot lower %y: axis 0 of %w (f32[DIDx{D}, 2, 5]) is split over devices but axis 1 of "
     "%y (f32[3, D, 2]) is not, and only %x is gathered; %y : f32[3, DIDx{D}, 2], or %w : f32[D, "
     "2, 5], would be accepted\n"},
    {"StreamNotLeading",
     R"(  %A = input f32[3, 7, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[3, Stream{7}, 6]
  output %C
)",
     "5:3: cannot lower %C: axis 1 of %C (f32[3, Stream{7}, 6]) is Stream, but only a leading axis "
     "that comes from %A is produced slice by slice; %C : f32[Stream{3}, 7, 6] would be "
     "accepted\n"},
    {"StreamFromB",
     R"(  %A = input f32[5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[Stream{6}]
  output %C
)",
     "5:3: cannot lower %C: axis 0 of %C (f32[Stream{6}]) is Stream, but only a leading axis that "
     "comes from %A is produced slice by slice; %C : f32[6] would be accepted\n"},
    {"SplitBias",
     R"(  %x = input f32[3, 5]
  %w = input f32[D, 2, 5]
  %bias = input f32[DIDx{D}, 2]
  %y = linear %x, %w, %bias : f32[3, D, 2]
  output %y
)",
     "6:3: cannot lower %y: axis 0 of %bias (f32[DIDx{D}, 2]) is split over devices but axis 1 of "
     "%y (f32[3, D, 2]), to which it is added, is whole; %bias : f32[D, 2] would be accepted\n"},
    {"WholeBias",
     R"(  %x = input f32[3, 5]
  %w = input f32[DIDx{D}, 2, 5]
  %bias = input f32[D, 2]
  %y = linear %x, %w, %bias : f32[3, DIDx{D}, 2]
  output %y
)",
     "6:3: cannot lower %y: axis 0 of %bias (f32[D, 2]) is whole on every device but axis 1 of %y "
     "(f32[3, DIDx{D}, 2]), to which it is added, is split; %bias : f32[DIDx{D}, 2] would be "
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

//===- Advice ---------------------------------------------------------------------------------===//

/// The alternatives that end a message: "...; A and B, or C, would be accepted".
std::vector<std::string> adviceIn(llvm::StringRef message) {
  message = message.rsplit("; ").second;
  EXPECT_TRUE(message.consume_back(" would be accepted")) << message.str();
  llvm::SmallVector<llvm::StringRef, 2> alternatives;
  message.rtrim(',').split(alternatives, ", or ");
  return {alternatives.begin(), alternatives.end()};
}

void replace(std::string &text, llvm::StringRef from, llvm::StringRef to) {
  for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to.str());
}

/// As a reader would follow it: in the line that defines a tensor, or in the one at fault.
std::string follow(llvm::StringRef text, llvm::StringRef advice, size_t lineAtFault) {
  llvm::SmallVector<llvm::StringRef, 16> lines;
  text.split(lines, '\n');
  std::vector<std::string> changed(lines.begin(), lines.end());
  llvm::SmallVector<llvm::StringRef, 2> parts;
  advice.split(parts, " and ");
  for (llvm::StringRef part : parts) {
    const auto [tensor, rest] = part.split(' ');
    const std::string defines = ("  " + tensor + " = ").str();
    const auto line = llvm::find_if(changed, [&, tensor = tensor](const std::string &each) {
      return llvm::StringRef(each).find(defines) == 0;
    });
    llvm::StringRef what = rest;
    if (what.consume_front("for ")) {
      replace(changed[lineAtFault - 1], what, tensor);
    } else if (line == changed.end()) {
      ADD_FAILURE() << "no such tensor: " << part.str();
    } else if (what.consume_front("= ")) {
      *line = defines + what.str();
    } else if (what.consume_front(": ")) {
      const size_t type = llvm::StringRef(*line).find_first_of(":") != llvm::StringRef::npos
                              ? line->rfind(": ") + 2
                              : defines.size() + llvm::StringRef("input ").size();
      *line = line->substr(0, type) + what.str();
    } else {
      ADD_FAILURE() << "nobody could follow this: " << part.str();
    }
  }
  return llvm::join(changed, "\n");
}

/// Follows each advice, and goes on with the first one of each message until all is lowered.
void expectAdviceToDo(std::string text) {
  for (;;) {
    const Lowered lowered = lowerText(text);
    if (lowered.messages.empty()) {
      EXPECT_TRUE(lowered.status.isOk()) << lowered.status.message() << "\n" << text;
      return;
    }
    const llvm::StringRef message = llvm::StringRef(lowered.messages).split('\n').first;
    const auto [place, what] = message.split(": ");
    const std::string refused = what.split(": ").first.str(); // "cannot lower %C"
    size_t line = 0;
    ASSERT_FALSE(place.split(':').first.getAsInteger(10, line));
    const std::vector<std::string> advice = adviceIn(message);
    ASSERT_FALSE(advice.empty());
    for (const std::string &each : advice) {
      const Lowered followed = lowerText(follow(text, each, line));
      EXPECT_EQ(followed.messages.find(refused), std::string::npos) << each << " for\n"
                                                                    << text << followed.messages;
      EXPECT_LT(llvm::count(followed.messages, '\n'), llvm::count(lowered.messages, '\n'))
          << each << " for\n"
          << text << followed.messages;
    }
    if (testing::Test::HasFailure())
      return;
    text = follow(text, advice.front(), line);
  }
}

TEST_P(Refusals, AdviseWhatIsLowered) { expectAdviceToDo(fusion(GetParam().nodes)); }

/// Types with each axis of extent D as the DIDx one, and with none; and with Stream in front.
std::vector<std::string> placements(llvm::ArrayRef<const char *> axes, bool mayBeStreamed) {
  std::vector<std::string> types;
  for (bool isStreamed : {false, true})
    for (size_t split = 0; split <= axes.size(); ++split) {
      if ((isStreamed && (!mayBeStreamed || split == 0)) ||
          (split < axes.size() && llvm::StringRef(axes[split]) != "D"))
        continue;
      std::vector<std::string> kinds(axes.begin(), axes.end());
      if (split < axes.size())
        kinds[split] = "DIDx{D}";
      if (isStreamed)
        kinds[0] = "Stream{" + kinds[0] + "}";
      types.push_back("f32[" + llvm::join(kinds, ", ") + "]");
    }
  return types;
}

struct Shapes {
  const char *name, *operation;
  std::vector<const char *> a, b, c;
};

void PrintTo(const Shapes &shapes, std::ostream *os) { *os << shapes.name; }

class Placements : public testing::TestWithParam<Shapes> {};

TEST_P(Placements, AreLoweredOrAdvised) {
  const Shapes &shapes = GetParam();
  for (const std::string &a : placements(shapes.a, false))
    for (const std::string &b : placements(shapes.b, false))
      for (const std::string &c : placements(shapes.c, true))
        expectAdviceToDo(fusion("  %A = input " + a + "\n  %B = input " + b + "\n  %C = " +
                                shapes.operation + " %A, %B : " + c + "\n  output %C\n"));
}

INSTANTIATE_TEST_SUITE_P(
    All, Placements,
    testing::Values(
        Shapes{"Matmul", "matmul", {"D", "3", "5"}, {"5", "D", "2"}, {"D", "3", "D", "2"}},
        Shapes{"Linear", "linear", {"D", "3", "5"}, {"D", "2", "5"}, {"D", "3", "D", "2"}},
        Shapes{"Reduction",
               "matmul",
               {"D", "3", "D", "5"},
               {"D", "5", "D", "2"},
               {"D", "3", "D", "2"}},
        Shapes{"LinearReduction",
               "linear",
               {"D", "3", "D", "5"},
               {"D", "2", "D", "5"},
               {"D", "3", "D", "2"}},
        Shapes{
            "Batch", "matmul", {"2", "D", "3", "5"}, {"5", "D", "2"}, {"2", "D", "3", "D", "2"}}),
    [](const auto &test) { return std::string(test.param.name); });

TEST(Advice, IsForEachOfManyNodes) {
  expectAdviceToDo(R"(fusion @layer(D = 4) {
  mesh [0 .. D)
  %X = input f32[2, DIDx{D}, 3, 5]
  %W = input f32[5, DIDx{D}, 6]
  %V = input f32[5, D, 6]
  %R = input f32[2, D, 3, D, 6]
  %H = matmul %X, %W : f32[2, D, 3, D, 6]
  %G = matmul %X, %V : f32[2, D, 3, DIDx{D}, 6]
  %S = gelu %H : f32[2, D, 3, DIDx{D}, 6]
  %Y = multiply %S, %R : f32[2, DIDx{D}, 3, D, 6]
  output %Y, %G
}
)");
}

/// One for each refusal that is not about the placements of a GEMM.
const Refusal kOthers[] = {
    {"ExchangedReshard", R"(  %X = input f32[DIDx{D}, D, 3, 5]
  %W = input f32[5, 6]
  %Z = reshard %X : f32[D, DIDx{D}, 3, 5]
  %Y = matmul %Z, %W : f32[D, DIDx{D}, 3, 6]
  output %Y
)",
     "5:3: cannot lower %Z: axis 0 of %X (f32[DIDx{D}, D, 3, 5]) is not gathered to axis 0 of %Z "
     "(f32[D, DIDx{D}, 3, 5]), and only a leading DIDx axis is, to Stream; "
     "%Z = input f32[D, DIDx{D}, 3, 5] would be accepted\n"},
    {"ReshardThatSplitsToo", R"(  %X = input f32[DIDx{D}, 3, D, 5]
  %Z = reshard %X : f32[Stream{D}, 3, DIDx{D}, 5]
  output %Z
)",
     "4:3: cannot lower %Z: axis 2 of %X (f32[DIDx{D}, 3, D, 5]) does not lie as axis 2 of %Z "
     "(f32[Stream{D}, 3, DIDx{D}, 5]), and only a leading axis is gathered; %Z : f32[Stream{D}, 3, "
     "D, 5] would be accepted\n"},
    {"OwnBlockOfAll", R"(  %X = input f32[D, 3, 5]
  %Z = reshard %X : f32[DIDx{D}, 3, 5]
  output %Z
)",
     "4:3: cannot lower %Z: axis 0 of %X (f32[D, 3, 5]) is not gathered to axis 0 of %Z "
     "(f32[DIDx{D}, 3, 5]), and only a leading DIDx axis is, to Stream; %Z = input f32[DIDx{D}, 3, "
     "5] would be accepted\n"},
    {"GatherOfAResult", R"(  %A = input f32[D, 3, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, 6]
  %C = matmul %A, %B : f32[DIDx{D}, 3, 6]
  %G = reshard %C : f32[Stream{D}, 3, 6]
  output %C, %G
)",
     "6:3: cannot lower %G: %C is not an input, and only inputs are resharded; %G = matmul %A, %B "
     ": f32[Stream{D}, 3, 6] would be accepted\n"},
    {"ReshardAsSecondOperand", R"(  %A = input f32[DIDx{D}, 3, D, 6]
  %E = input f32[5, D, 6]
  %Z = reshard %A : f32[Stream{D}, 3, D, 6]
  %C = linear %E, %Z : f32[5, D, 3]
  output %C, %Z
)",
     "6:3: cannot lower %C: %Z is resharded, and only a first operand is gathered; axis 0 of %Z (a "
     "reshard of %A, f32[DIDx{D}, 3, D, 6]) is split over devices but axis 1 of %C (f32[5, D, 3]) "
     "is not, and only %E is gathered; %A for %Z and %C : f32[5, DIDx{D}, 3] would be accepted\n"},
    {"ReshardOfAnOperandOfAdd", R"(  %A = input f32[DIDx{D}, 3, 5]
  %B = input f32[5, 5]
  %Z = reshard %A : f32[Stream{D}, 3, 5]
  %C = matmul %A, %B : f32[Stream{D}, 3, 5]
  %Y = add %C, %Z : f32[Stream{D}, 3, 5]
  output %Y
)",
     "7:3: cannot lower %Y: %Z is resharded, and what is gathered is no operand here; "},
    {"RefusedOfAReshard", R"(  %A = input f32[DIDx{D}, D, 3, 5]
  %B = input f32[5, 6]
  %Z = reshard %A : f32[Stream{D}, D, 3, 5]
  %C = matmul %Z, %B : f32[D, DIDx{D}, 3, 6]
  output %C
)",
     "6:3: cannot lower %C: axis 1 of %Z (a reshard of %A, f32[DIDx{D}, D, 3, 5]) is whole"},
    {"ReshardOfAllOfIt", R"(  %A = input f32[6, 5]
  %Z = reshard %A : f32[Stream{6}, 5]
  output %Z
)",
     "4:3: cannot lower %Z: axis 0 of %A (f32[6, 5]) is not gathered to axis 0 of %Z "
     "(f32[Stream{6}, 5]), and only a leading DIDx axis is, to Stream; %Z = input f32[6, 5] would "
     "be accepted\n"},
    {"ReshardOfContracted", R"(  %A = input f32[6, D]
  %B = input f32[DIDx{D}, 3]
  %Z = reshard %B : f32[Stream{D}, 3]
  %C = matmul %A, %Z : f32[6, 3]
  output %C
)",
     ""},
    {"OfInputsAlone", R"(  %A = input f32[DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5]
  %C = add %A, %B : f32[DIDx{D}, 5]
  output %C
)",
     "5:3: cannot lower %C: it is made of inputs alone, and no stage makes any of them; %C = input "
     "f32[DIDx{D}, 5] would be accepted\n"},
    {"ResidualElsewhere", R"(  %A = input f32[D, 3, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, 6]
  %R = input f32[D, 3, 6]
  %C = matmul %A, %B : f32[DIDx{D}, 3, 6]
  %Y = add %C, %R : f32[DIDx{D}, 3, 6]
  output %Y
)",
     "7:3: cannot lower %Y: axis 0 of %R (f32[D, 3, 6]) is not split over devices but axis 0 of %Y "
     "(f32[DIDx{D}, 3, 6]) is; %R : f32[DIDx{D}, 3, 6] would be accepted\n"},
    {"RowsAddedToAll", R"(  %A = input f32[DIDx{D}, 3, 6]
  %B = input f32[6, 6]
  %C = matmul %A, %B : f32[Stream{D}, 3, 6]
  %Y = add %C, %A : f32[Stream{D}, 3, 6]
  output %Y
)",
     "6:3: cannot lower %Y: axis 0 of %A (f32[DIDx{D}, 3, 6]) is split over devices but axis 0 of "
     "%Y (f32[Stream{D}, 3, 6]) is not; %A : f32[D, 3, 6] would be accepted\n"},
};

class OtherRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(OtherRefusals, AdviseWhatIsLowered) {
  const std::string text = fusion(GetParam().nodes), message = GetParam().message;
  const Lowered lowered = lowerText(text);
  EXPECT_EQ(lowered.status.code(), StatusCode::Unsupported);
  EXPECT_EQ(lowered.messages.substr(0, message.size()), message);
  expectAdviceToDo(text);
}

INSTANTIATE_TEST_SUITE_P(All, OtherRefusals, testing::ValuesIn(kOthers),
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
      "axis that comes from %A is produced slice by slice; %C : f32[Stream{D}, 3, 6] would be "
      "accepted\n"
      "8:3: cannot lower %H: axis 1 of %H (f32[D, Stream{3}, D, 2]) is Stream, but only a leading "
      "axis that comes from %A is produced slice by slice; %H : f32[Stream{D}, 3, D, 2] would be "
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

/// "" if a fusion is lowered so, else the first message.
std::string whyNot(const std::string &text, const std::string &schedule) {
  Diagnostics diags("test.braid", text);
  const Module module = parse(diags);
  const auto program = lower(module, *module.fusions.front(), test::configured(schedule), diags);
  if (program)
    return "";
  return diags.all().empty() ? program.status().message() : diags.all().front().message;
}

/// Which presets would do is said for the whole fusion, beside what else was asked for.
TEST(Schedules, AdvisedAreLowered) {
  int followed = 0;
  for (const char *example : {"ag_matmul", "ag_uneven", "ag_matmul_hosts", "mlp",
                              "matmul_all_reduce", "matmul_reduce_scatter"}) {
    const std::string text = test::readExample(std::string(example) + ".braid");
    for (const Preset &preset : presets())
      for (const char *knob : {"", ";reduction=two-shot", ";partials=peer", ";sums=gemm",
                               ";chunks=2", ";tail-split=2", ";protocol=put"}) {
        const std::string refusal = whyNot(text, preset.name.str() + knob);
        auto [before, advice] = llvm::StringRef(refusal).split("; these would do: ");
        llvm::SmallVector<llvm::StringRef, 8> names;
        advice.rtrim(')').split(names, ", ", -1, /*KeepEmpty=*/false);
        for (llvm::StringRef name : names) {
          EXPECT_EQ(whyNot(text, name.str() + knob), "")
              << example << ": " << name.str() << knob << ", which is advised for "
              << preset.name.str() << knob << ": " << before.str();
          ++followed;
        }
      }
  }
  EXPECT_GT(followed, 200);
}

TEST(Schedules, AreForStagesThatMakeTensors) {
  expectRefused(rows(6), "Z=ring",
                "1:1: the schedule names %Z, but no stage makes it; stages make %C\n");
  expectRefused(rows(6), "C=ring,%C=pairwise", "5:3: the schedule names the stage of %C twice\n");
}

} // namespace
} // namespace braid
