//===- api/doctor/between_ranks.cpp - what ranks say about themselves, and what they find -----===//

#include "api/doctor/between_ranks.h"

#include "ir/failure.h"

#include <nlohmann/json.hpp>

namespace braid::doctor {
namespace {

using Ordered = nlohmann::ordered_json;

/// Bytes that are no UTF-8 are replaced.
std::string textOf(const Ordered &json) {
  return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

std::optional<Severity> severityOf(const std::string &text) {
  for (Severity severity : {Severity::Ok, Severity::Note, Severity::Problem})
    if (text == strOf(severity))
      return severity;
  return std::nullopt;
}

std::optional<Finding> findingOf(const Ordered &json) {
  Finding finding;
  std::string severity;
  for (const auto &[name, field] :
       {std::pair("check", &finding.check), std::pair("line", &finding.line),
        std::pair("severity", &severity), std::pair("seen", &finding.seen),
        std::pair("advice", &finding.advice)}) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string())
      return std::nullopt;
    *field = json[name].get<std::string>();
  }
  const std::optional<Severity> known = severityOf(severity);
  if (!known)
    return std::nullopt;
  finding.severity = *known;
  return finding;
}

/// Of an object of texts.
std::optional<std::map<std::string, std::string>> textsOf(const Ordered &json) {
  std::map<std::string, std::string> texts;
  if (!json.is_object())
    return std::nullopt;
  for (const auto &[name, value] : json.items()) {
    if (!value.is_string())
      return std::nullopt;
    texts[name] = value.get<std::string>();
  }
  return texts;
}

} // namespace

Ordered jsonOf(const Finding &finding) {
  return {
      {"check", finding.check}, {"line", finding.line},     {"severity", strOf(finding.severity)},
      {"seen", finding.seen},   {"advice", finding.advice}, {"ranks", finding.ranks}};
}

std::string encodeFindings(const std::vector<Finding> &findings) {
  Ordered list = Ordered::array();
  for (const Finding &finding : findings)
    list.push_back(jsonOf(finding));
  return textOf(list);
}

Result<std::vector<Finding>> decodeFindings(llvm::StringRef text) {
  const Ordered json =
      Ordered::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const Status wrong = badInput("expected what a rank found, got something else");
  if (!json.is_array())
    return wrong;
  std::vector<Finding> findings;
  for (const Ordered &each : json) {
    std::optional<Finding> finding = findingOf(each);
    if (!finding)
      return wrong;
    findings.push_back(std::move(*finding));
  }
  return findings;
}

std::string RankFacts::encode() const {
  return textOf({{"pid_namespace", pidNamespace},
                 {"ipc_namespace", ipcNamespace},
                 {"gpu", gpu},
                 {"variables", variables}});
}

Result<RankFacts> RankFacts::decode(llvm::StringRef text) {
  const Ordered json =
      Ordered::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const Status wrong = badInput("expected what a rank says about itself, got something else");
  if (!json.is_object() || !json.contains("variables") || !json["variables"].is_object())
    return wrong;
  RankFacts facts;
  for (const auto &[name, field] : {std::pair("pid_namespace", &RankFacts::pidNamespace),
                                    std::pair("ipc_namespace", &RankFacts::ipcNamespace)}) {
    if (!json.contains(name) || !json[name].is_number_unsigned())
      return wrong;
    facts.*field = json[name].get<uint64_t>();
  }
  if (!json.contains("gpu") || !json["gpu"].is_string())
    return wrong;
  facts.gpu = json["gpu"].get<std::string>();
  std::optional<std::map<std::string, std::string>> variables = textsOf(json["variables"]);
  if (!variables)
    return wrong;
  facts.variables = std::move(*variables);
  return facts;
}

std::string encodeBackendFacts(const BackendFacts &facts) { return textOf(Ordered(facts)); }

Result<BackendFacts> decodeBackendFacts(llvm::StringRef text) {
  const Ordered json =
      Ordered::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (std::optional<BackendFacts> facts = textsOf(json))
    return std::move(*facts);
  return badInput("expected what a backend knows, got something else");
}

} // namespace braid::doctor
