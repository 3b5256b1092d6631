//===- tests/ir/messages_test.cpp - all rules of parsers and verifiers, with messages ---------===//

#include "tests/support/case_file.h"

namespace braid::test {
namespace {

std::string parseMessages(const std::string &text) {
  Diagnostics diags("text", text);
  parse(diags);
  return brief(diags);
}

/// Returns the verifier's messages about a text that must parse.
std::string verifyMessages(const std::string &text) {
  Diagnostics diags("text", text);
  Module module = parse(diags);
  if (diags.hasErrors())
    return "does not parse:\n" + brief(diags);
  bool isFine = verify(module, diags);
  EXPECT_EQ(isFine, !diags.hasErrors());
  return brief(diags);
}

TEST(Messages, FusionParser) { checkCases("tests/ir/inputs/parse_fusion.cases", parseMessages); }
TEST(Messages, ProgramParser) { checkCases("tests/ir/inputs/parse_program.cases", parseMessages); }
TEST(Messages, FusionVerifier) {
  checkCases("tests/ir/inputs/verify_fusion.cases", verifyMessages);
}
TEST(Messages, ProgramVerifier) {
  checkCases("tests/ir/inputs/verify_program.cases", verifyMessages);
}

} // namespace
} // namespace braid::test
