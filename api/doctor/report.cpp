//===- api/doctor/report.cpp - findings as text, as JSON, and as one line ---------------------===//

#include "api/doctor/report.h"

#include "api/doctor/between_ranks.h"

#include "ir/counted.h"

#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace braid::doctor {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char *kColourOff = "\033[0m";

const char *colourOf(Severity severity) {
  constexpr std::array<const char *, 3> kColours = {"\033[32m", "\033[33m", "\033[31m"};
  return kColours[static_cast<size_t>(severity)];
}

std::string ranksText(const std::vector<int64_t> &ranks) {
  std::vector<std::string> texts;
  for (int64_t rank : ranks)
    texts.push_back(std::to_string(rank));
  return texts.empty() ? ""
                       : fmt::format("{} {}: ", texts.size() == 1 ? "rank" : "ranks",
                                     llvm::join(texts, ", "));
}

int64_t countOf(const std::vector<Finding> &findings, Severity severity) {
  return llvm::count_if(findings,
                        [&](const Finding &finding) { return finding.severity == severity; });
}

std::string summary(const Facts &facts, const std::vector<Finding> &findings) {
  const int64_t problems = countOf(findings, Severity::Problem);
  const int64_t notes = countOf(findings, Severity::Note);
  const std::string rest =
      fmt::format("{}, {}", counted(problems, "problem"), counted(notes, "note"));
  if (problems > 0)
    return rest + "\n";
  return fmt::format("{}: programs run on {} here\n", rest,
                     facts.cudaNumber("devices").value_or(0) > 0 ? "GPUs and cpu ranks"
                                                                 : "cpu ranks");
}

OrderedJson gpusJson(const Facts &facts) {
  OrderedJson list = OrderedJson::array();
  auto add = [&](const std::string &name, const std::string &uuid, const std::string &pci) {
    const std::optional<int64_t> number = cudaNumberOf(facts, pci);
    list.push_back({{"name", name},
                    {"uuid", uuid},
                    {"pci", pci},
                    {"cuda", number ? OrderedJson(*number) : OrderedJson()},
                    {"hidden", isHidden(facts, pci)}});
  };
  if (facts.nvml.value)
    for (const NvmlDevice &device : facts.nvml.value->devices)
      add(device.name, device.uuid, device.pci);
  else
    for (const PciGpu &gpu : facts.gpus)
      add("", "", gpu.address);
  return list;
}

size_t placeInTable(const Finding &finding) {
  const std::vector<Check> &checks = allChecks();
  return static_cast<size_t>(
      llvm::find_if(checks, [&](const Check &check) { return finding.check == check.name; }) -
      checks.begin());
}

bool saySame(const Finding &a, const Finding &b) {
  return a.check == b.check && a.line == b.line && a.seen == b.seen && a.advice == b.advice;
}

} // namespace

std::string reportText(const Facts &facts, const std::vector<Finding> &findings, bool hasColours) {
  size_t width = 0;
  for (const Finding &finding : findings)
    width = std::max(width, finding.check.size());
  constexpr size_t kWidthOfSeverity = 7;
  std::string text;
  for (const Finding &finding : findings) {
    const std::string word = fmt::format("{:<{}}", strOf(finding.severity), kWidthOfSeverity);
    text += hasColours ? colourOf(finding.severity) + word + kColourOff : word;
    text += fmt::format("  {:<{}}  {}{}\n", finding.check, width, ranksText(finding.ranks),
                        finding.seen);
    if (!finding.advice.empty())
      text += fmt::format("{:<{}}  {}\n", "", kWidthOfSeverity + 2 + width, "-> " + finding.advice);
  }
  return text + summary(facts, findings);
}

std::string reportJson(const Facts &facts, const std::vector<Finding> &findings) {
  OrderedJson lines = OrderedJson::array();
  for (const Finding &finding : findings)
    lines.push_back(jsonOf(finding));
  const OrderedJson json = {
      {"exit_code", exitCodeOf(findings)}, {"gpus", gpusJson(facts)}, {"lines", std::move(lines)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

int exitCodeOf(const std::vector<Finding> &findings) {
  return countOf(findings, Severity::Problem) > 0 ? static_cast<int>(StatusCode::Unsupported) : 0;
}

std::string inOneLine(const Finding &finding) {
  return finding.advice.empty() ? finding.seen : finding.seen + "; " + finding.advice;
}

std::vector<Finding> mergeFindings(const std::vector<std::vector<Finding>> &ofRanks) {
  std::vector<Finding> merged;
  for (size_t rank = 0; rank < ofRanks.size(); ++rank)
    for (const Finding &finding : ofRanks[rank]) {
      auto known =
          llvm::find_if(merged, [&](const Finding &each) { return saySame(each, finding); });
      if (known == merged.end())
        known = merged.insert(merged.end(), finding);
      known->ranks.push_back(static_cast<int64_t>(rank));
    }
  for (Finding &finding : merged)
    if (finding.ranks.size() == ofRanks.size())
      finding.ranks.clear();
  llvm::stable_sort(
      merged, [](const Finding &a, const Finding &b) { return placeInTable(a) < placeInTable(b); });
  return merged;
}

} // namespace braid::doctor
