//===- api/doctor/check.cpp - runs the table of checks ----------------------------------------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

std::string forTerminal(const std::string &text) {
  std::string safe;
  for (const char c : text)
    safe += llvm::isPrint(c) ? std::string(1, c)
                             : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  return safe;
}

} // namespace

void Lines::add(const char *line, Severity severity, const std::string &seen,
                const std::string &advice) {
  findings_.push_back({check_, line, severity, forTerminal(seen), forTerminal(advice)});
  isEmpty_ = false;
}

std::vector<Finding> runChecks(const Facts &facts) {
  std::vector<Finding> findings;
  for (const auto &part : {gpuChecks(), processChecks(), environmentChecks()})
    for (const Check &check : part) {
      Lines lines(check.name, findings);
      if (!check.needsGpu || facts.hasGpu())
        check.look(facts, lines);
    }
  return findings;
}

} // namespace braid::doctor
