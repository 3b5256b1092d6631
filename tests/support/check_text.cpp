//===- tests/support/check_text.cpp - what generated programs have to live up to --------------===//

#include "tests/support/check_text.h"

#include "api/compile/check.h"

namespace braid::test {

Status checkText(const std::string &text, const CompileOptions &options) {
  std::unique_ptr<Source> source = parseSource("generated.braid", text);
  Result<Compiled> compiled = compile(*source, options);
  if (!compiled)
    return compiled.status().annotated(source->diags.str());
  Result<CheckReport> report = checkProgram(*compiled, {.queues = 1});
  if (!report)
    return report.status().annotated(source->diags.str());
  if (!report->isSafe() || !report->resultChecked)
    return Status(StatusCode::Rejected, str(*report));
  return Status::ok();
}

} // namespace braid::test
