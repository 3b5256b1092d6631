//===- api/doctor/report.cpp - findings as text and as JSON -----------------------------------===//

#include "api/doctor/report.h"

#include "ir/counted.h"

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
  const char *where = facts.cudaDevices() > 0 ? "GPUs and cpu ranks" : "cpu ranks";
  return problems > 0 ? counts + "\n" : fmt::format("{}: programs run on {} here\n", counts, where);
}

void writeGpu(JsonWriter &json, const Gpu &gpu) {
  json.object([&] {
    json.attribute("name", gpu.nvml.name);
    json.attribute("uuid", gpu.nvml.uuid);
    json.attribute("pci", gpu.pci);
    json.attribute("cuda", gpu.cuda);
    json.attribute("hidden", gpu.isHidden);
  });
}

void writeFinding(JsonWriter &json, const Finding &finding) {
  json.object([&] {
    json.attribute("check", finding.check);
    json.attribute("line", finding.line);
    json.attribute("severity", kNames[static_cast<size_t>(finding.severity)]);
    json.attribute("seen", finding.seen);
    json.attribute("advice", finding.advice);
  });
}

} // namespace

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
  json.attributeList("gpus", facts.gpus, writeGpu);
  json.attributeList("lines", findings, writeFinding);
}

int exitCodeOf(const std::vector<Finding> &findings) {
  return countOf(findings, Severity::Problem) > 0 ? static_cast<int>(StatusCode::Unsupported) : 0;
}

} // namespace braid::doctor
