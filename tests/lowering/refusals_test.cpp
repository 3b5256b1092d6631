//===- tests/lowering/refusals_test.cpp - fusions that cannot be lowered, and the messages ----===//

#include "tests/lowering/support.h"
#include "tests/support/case_file.h"
#include "tests/support/configured.h"
#include "tests/support/examples.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

/// Returns a fusion on D = 4 devices that contains `nodes`, which start on line 3.
std::string fusion(llvm::StringRef nodes) {
  return ("fusion @f(D = 4) {\n  mesh [0 .. D)\n" + nodes + "}\n").str();
}

//===- Advice ---------------------------------------------------------------------------------===//

/// Returns the alternatives at the end of a message: "...; A and B, or C, would be accepted".
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

/// Follows one piece of advice: edits the line that defines the tensor, or else the line at fault.
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

/// Checks each alternative in the first message, and then applies the first alternative to the
/// text. Repeats this until the text can be lowered.
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

std::string messagesAbout(const std::string &nodes) {
  const Lowered lowered = lowerText(fusion(nodes));
  EXPECT_EQ(lowered.status.code(),
            lowered.messages.empty() ? StatusCode::Ok : StatusCode::Unsupported);
  EXPECT_EQ(lowered.status.message(), lowered.messages.empty() ? "" : "cannot lower @f");
  EXPECT_EQ(lowered.text.empty(), !lowered.messages.empty());
  expectAdviceToDo(fusion(nodes));
  return lowered.messages;
}

TEST(Refusals, SayAxisReasonAndWhatWouldDo) {
  test::checkCases("tests/lowering/inputs/refusals.cases", messagesAbout);
}

/// Returns all types in which at most one axis of extent D is DIDx. If `mayBeStreamed`, also
/// returns these types with a leading Stream axis.
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

// On one device, no axis is split, regardless of its kind.
TEST(Refusals, VanishOnOneDevice) {
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

//===- Options --------------------------------------------------------------------------------===//

/// Returns the messages for a text whose first line is a schedule and whose other lines are nodes.
std::string messagesAboutOptions(const std::string &text) {
  const auto [schedule, nodes] = llvm::StringRef(text).split('\n');
  const Lowered lowered = lowerText(fusion(nodes), schedule.str());
  EXPECT_EQ(lowered.status.code(),
            lowered.messages.empty() ? StatusCode::Ok : StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(),
            lowered.messages.empty() ? "" : "cannot lower @f with these options");
  return lowered.messages;
}

TEST(Options, ThatDoNotFitAreRefused) {
  test::checkCases("tests/lowering/inputs/options.cases", messagesAboutOptions);
}

/// Lowers a fusion with a schedule. Returns "" or the first message.
std::string whyNot(const std::string &text, const std::string &schedule) {
  Diagnostics diags("test.braid", text);
  const Module module = parse(diags);
  const auto program = lower(module, *module.fusions.front(), test::configured(schedule), diags);
  if (program)
    return "";
  return diags.all().empty() ? program.status().message() : diags.all().front().message;
}

/// A message lists the presets that work for the whole fusion together with the other options.
TEST(Schedules, AdvisedAreLowered) {
  int followed = 0;
  for (const char *example : {"ag_matmul", "ag_uneven", "ag_matmul_hosts", "mlp",
                              "matmul_all_reduce", "matmul_reduce_scatter"}) {
    const std::string text = test::readExample(std::string(example) + ".braid");
    for (const Preset &preset : presets())
      for (const char *knob : {"", ";reduction=two-shot", ";partials=peer", ";sums=gemm",
                               ";chunks=2", ";tail-split=2", ";protocol=put"}) {
        const std::string refusal = whyNot(text, preset.name.str() + knob);
        auto [before, advice] = llvm::StringRef(refusal).split("; possible schedules: ");
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

} // namespace
} // namespace braid
