//===- api/doctor/check.cpp - runs the checks, and reports their findings ---------------------===//

#include "api/doctor/check.h"

#include "ir/counted.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::doctor {
namespace {

// Indexed by Severity.
constexpr const char *kNames[] = {"ok", "note", "problem"};
constexpr size_t kWidthOfSeverity = 7;

int64_t countOf(const std::vector<Finding> &findings, Severity severity) {
  return llvm::count_if(findings,
                        [&](const Finding &finding) { return finding.severity == severity; });
}

std::string summary(const Facts &facts, const std::vector<Finding> &findings) {
  const int64_t problems = countOf(findings, Severity::Problem);
  const std::string counts =
      counted(problems, "problem") + ", " + counted(countOf(findings, Severity::Note), "note");
  const char *where = facts.cudaDevices() > 0 ? "GPUs and CPUs" : "CPUs";
  return problems > 0 ? counts + "\n"
                      : fmt::format("{}: programs can run here on {}\n", counts, where);
}

} // namespace

void Lines::add(const char *line, Severity severity, const char *seen, const char *advice,
                fmt::format_args args) {
  constexpr size_t kMost = 4096;
  findings_.push_back({check_, line, severity, printable(fmt::vformat(seen, args), kMost),
                       printable(fmt::vformat(advice, args), kMost)});
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

std::string reportText(const Facts &facts, const std::vector<Finding> &findings) {
  size_t width = 0;
  for (const Finding &finding : findings)
    width = std::max(width, finding.check.size());
  std::string text;
  for (const Finding &finding : findings) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", kNames[static_cast<size_t>(finding.severity)],
                        kWidthOfSeverity, finding.check, width, finding.seen);
    if (!finding.advice.empty())
      text += fmt::format("{:<{}}  -> {}\n", "", kWidthOfSeverity + 2 + width, finding.advice);
  }
  return text + summary(facts, findings);
}

void writeMembers(JsonWriter &json, const Facts &facts, const std::vector<Finding> &findings) {
  json.attribute("exit_code", exitCodeOf(findings));
  json.attributeList("gpus", facts.gpus, [](JsonWriter &list, const Gpu &gpu) {
    list.object([&] {
      list.attribute("name", gpu.nvml.name);
      list.attribute("uuid", gpu.nvml.uuid);
      list.attribute("pci", gpu.nvml.pci);
      list.attribute("cuda", gpu.cuda);
      list.attribute("hidden", gpu.isHidden);
    });
  });
  json.attributeList("lines", findings, [](JsonWriter &list, const Finding &finding) {
    list.object([&] {
      list.attribute("check", finding.check);
      list.attribute("line", finding.line);
      list.attribute("severity", kNames[static_cast<size_t>(finding.severity)]);
      list.attribute("seen", finding.seen);
      list.attribute("advice", finding.advice);
    });
  });
}

int exitCodeOf(const std::vector<Finding> &findings) {
  return countOf(findings, Severity::Problem) > 0 ? static_cast<int>(StatusCode::Unsupported) : 0;
}

} // namespace braid::doctor
