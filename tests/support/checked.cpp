//===- tests/support/checked.cpp - checks of programs given as text ---------------------------===//

#include "tests/support/checked.h"

#include "tests/support/configured.h"

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

Planned planned(const std::string &text, const std::string &schedule, CompileOptions options) {
  Planned made{parseSource("t.braid", text), {}, {}};
  if (!schedule.empty())
    options.schedule = configured(schedule);
  Result<Compiled> compiled = compile(*made.source, options);
  EXPECT_TRUE(compiled.isOk()) << made.source->diags.str() << compiled.status().message() << text;
  if (!compiled)
    return made;
  made.compiled = *compiled;
  Result<std::vector<Plan>> plans = makePlans(made.compiled);
  EXPECT_TRUE(plans.isOk()) << plans.status().message() << made.source->diags.str();
  if (plans)
    made.plans = std::move(*plans);
  return made;
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
