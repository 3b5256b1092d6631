//===- tests/support/checked.cpp - programs in text, and what the checker says of them --------===//

#include "tests/support/checked.h"

#include <gtest/gtest.h>

namespace braid::test {

std::string edited(std::string text, const std::vector<Edit> &edits) {
  for (const auto &[from, to] : edits) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << "nowhere: " << from;
    EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "twice: " << from;
    if (at != std::string::npos)
      text.replace(at, from.size(), to);
  }
  return text;
}

Checked checked(const std::string &text, const CheckOptions &options) {
  Checked made{parseSource("t.braid", text)};
  Result<Compiled> compiled = compile(*made.source, {});
  EXPECT_TRUE(compiled) << made.source->diags.str() << text;
  if (compiled)
    made.report = checkProgram(*compiled, options);
  return made;
}

std::string verdict(const std::string &text, const CheckOptions &options) {
  const Checked made = checked(text, options);
  return made.report ? str(*made.report)
                     : made.report.status().message() + made.source->diags.str();
}

bool isSafe(const std::string &text, const CheckOptions &options) {
  const Checked made = checked(text, options);
  return made.report && made.report->isSafe();
}

} // namespace braid::test
