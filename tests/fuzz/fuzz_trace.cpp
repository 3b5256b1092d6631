//===- tests/fuzz/fuzz_trace.cpp - fuzzes the reader of traces --------------------------------===//

#include "api/view/pages.h"
#include "tests/fuzz/require.h"

#include <cmath>

namespace braid::view {

const char *const kPageHtml = "", *const kPageCss = "", *const kPageJs = "";

/// Replaces the parser of programs, which fuzz_program covers: any text stands for a program on two
/// ranks with three commands each.
Result<PrintedProgram> readAgain(const std::string &, const std::string &text, Transport) {
  PrintedProgram printed;
  printed.program = text;
  printed.plans.resize(2);
  for (Plan &plan : printed.plans)
    plan.commands.resize(3);
  return printed;
}

/// Each command waits for the same command of the other rank.
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t) {
  Page page;
  page.program = program.program;
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    Rank &shown = page.ranks.emplace_back();
    for (uint32_t command = 0; command < plans[rank].commands.size(); ++command)
      shown.commands.push_back({.cause = {static_cast<int32_t>(1 - rank), command}});
  }
  return page;
}

} // namespace braid::view

/// If a trace is rejected, the message must be printable. If it is accepted, its times must be
/// finite.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  const auto page = braid::view::measuredPage("trace", text);
  if (!page) {
    for (unsigned char c : page.status().message())
      braid::require((c >= 0x20 || c == '\n') && c != 0x7f);
    return 0;
  }
  braid::require(std::isfinite(page->timings.front().total));
  return 0;
}
