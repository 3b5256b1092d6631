//===- api/doctor/check.cpp - the table of checks, and running it -----------------------------===//

#include "api/doctor/check.h"

namespace braid::doctor {

const std::vector<Check> &allChecks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> checks;
    for (const auto &part : {driverChecks(), deviceChecks(), pairChecks(), processChecks(),
                             environmentChecks(), jobChecks()})
      checks.insert(checks.end(), part.begin(), part.end());
    return checks;
  }();
  return all;
}

std::vector<Finding> runChecks(const Facts &facts) {
  std::vector<Finding> findings;
  for (const Check &check : allChecks()) {
    if (check.needsGpu && !facts.hasGpu())
      continue;
    Lines lines(check, findings);
    check.look(facts, lines);
  }
  return findings;
}

std::optional<Finding> explain(const Failure &failure, const Facts &facts) {
  for (const Check &check : allChecks()) {
    const bool isApart = check.needsGpu && !(failure.isOnGpus && facts.hasGpu());
    if (isApart || !check.explains || !check.explains(failure))
      continue;
    std::vector<Finding> findings;
    Lines lines(check, findings);
    check.look(facts, lines);
    for (const Finding &finding : findings)
      if (finding.severity == Severity::Problem)
        return finding;
  }
  return std::nullopt;
}

std::string gpuName(const Facts &facts, size_t index) {
  const std::string &address = facts.nvml.value->devices[index].pci;
  return address.empty() ? fmt::format("GPU {}", index)
                         : fmt::format("GPU {} ({})", index, address);
}

std::string cudaVersionText(int64_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

} // namespace braid::doctor
