//===- api/doctor/check.cpp - runs the table of checks ----------------------------------------===//

#include "api/doctor/check.h"

#include "ir/printable.h"

namespace braid::doctor {
void Lines::add(const char *line, Severity severity, const std::string &seen,
                const std::string &advice) {
  constexpr size_t kMost = 4096;
  findings_.push_back({check_, line, severity, printable(seen, kMost), printable(advice, kMost)});
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
