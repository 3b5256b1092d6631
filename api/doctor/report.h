//===- api/doctor/report.h - findings as text, as JSON, and as one line -----------------------===//
#pragma once

#include "api/doctor/check.h"

namespace braid::doctor {

/// One line for each finding, with what to do below it, and a last line that sums up. Ends with a
/// line break. `hasColours`: for a terminal.
std::string reportText(const Facts &facts, const std::vector<Finding> &findings, bool hasColours);

/// {"exit_code": 0, "gpus": [{"name", "uuid", "pci", "cuda": 0, "hidden": false}, ...],
/// "lines": [{"check", "line", "severity", "seen", "advice", "ranks"}, ...]}.
/// Ends with a line break.
std::string reportJson(const Facts &facts, const std::vector<Finding> &findings);

/// 4 if there is a problem, else 0.
int exitCodeOf(const std::vector<Finding> &findings);

/// "what was seen; what to do", for the end of another message.
std::string inOneLine(const Finding &finding);

/// Those of all ranks, in the table's order. What several find is there once, and says which.
std::vector<Finding> mergeFindings(const std::vector<std::vector<Finding>> &ofRanks);

} // namespace braid::doctor
