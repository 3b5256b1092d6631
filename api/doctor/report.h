//===- api/doctor/report.h - findings as text and as JSON -------------------------------------===//
#pragma once

#include "api/doctor/check.h"
#include "runtime/json.h"

namespace braid::doctor {

/// Returns one line for each finding, followed by its advice, if any. Ends with a summary and a
/// newline.
std::string reportText(const Facts &facts, const std::vector<Finding> &findings);

/// Writes the members "exit_code": 0,
/// "gpus": [{"name", "uuid", "pci", "cuda": 0, "hidden": false}, ...],
/// "lines": [{"check", "line", "severity", "seen", "advice"}, ...].
void writeMembers(JsonWriter &json, const Facts &facts, const std::vector<Finding> &findings);

/// Returns 4 if any finding is a Problem, otherwise 0.
int exitCodeOf(const std::vector<Finding> &findings);

} // namespace braid::doctor
