//===- tests/lowering/rewrites_test.cpp - passes that read only the program -------------------===//
//
// simplify and sink-waits need no state of earlier passes, so they are tested on hand-written
// programs.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/passes/passes.h"
#include "tests/lowering/support.h"
#include "tests/support/case_file.h"

#include "ir/module.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

/// Applies `pass` to a program on 4 ranks, and checks that the pass correctly reports whether it
/// changed the program.
std::string rewrite(bool (*pass)(LoweringState &), const std::string &body) {
  std::string text = "program @p mesh [0 .. 4)\n      (%A: f32[6, 5], %B: f32[5, 3]) -> "
                     "(%C: f32[6, 3]) {\n" +
                     body + "}\n";
  Diagnostics diags("test.braid", text);
  Module module = parse(diags);
  EXPECT_TRUE(!diags.hasErrors() && verify(module, diags)) << diags.str();
  std::string before = str(*module.programs[0]);
  Fusion fusion("f");
  LoweringState state{fusion, {}, diags};
  state.program = std::move(module.programs[0]);
  bool changed = pass(state);
  EXPECT_TRUE(verify(*state.program, Module(), diags)) << diags.str();
  std::string after = str(*state.program);
  EXPECT_EQ(changed, before != after);
  EXPECT_FALSE(pass(state)) << "once more, and there is something left to do";
  llvm::StringRef nodes = llvm::StringRef(after).split("{\n").second;
  return nodes.substr(0, nodes.rfind("}\n")).str();
}

/// Applies the pass that is named by the first line of the text to the nodes on the other lines.
std::string rewritten(const std::string &text) {
  const auto [pass, body] = llvm::StringRef(text).split('\n');
  return rewrite(pass == "simplify" ? simplify : sinkWaits, body.str());
}

TEST(Rewrites, MakeWhatTheCasesSay) {
  test::checkCases("tests/lowering/inputs/rewrites.cases", rewritten);
}

} // namespace
} // namespace braid
