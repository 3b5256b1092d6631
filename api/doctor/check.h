//===- api/doctor/check.h - the checks of `braid doctor` and their findings -------------------===//
#pragma once

#include "api/doctor/facts.h"
#include "runtime/json.h"

#include <fmt/format.h>

namespace braid::doctor {

enum class Severity : uint8_t {
  Ok,
  Note,    ///< programs run, but slower than possible, or not in every mode
  Problem, ///< programs cannot run
};

/// One line of the report.
struct Finding {
  std::string check, line; ///< for example, "power" and "capped"
  Severity severity = Severity::Ok;
  std::string seen;   ///< the observed state and, unless obvious, the expected state
  std::string advice; ///< the recommended fix; empty for Ok
};

/// Collects the findings of one check. `seen` and `advice` are format strings for `args`. Escapes
/// control characters in the formatted text.
class Lines {
public:
  Lines(const char *check, std::vector<Finding> &findings) : check_(check), findings_(findings) {}

  template <class... Args> void ok(const char *line, const char *seen, const Args &...args) {
    add(line, Severity::Ok, seen, "", fmt::make_format_args(args...));
  }
  template <class... Args>
  void note(const char *line, const char *seen, const char *advice, const Args &...args) {
    add(line, Severity::Note, seen, advice, fmt::make_format_args(args...));
  }
  template <class... Args>
  void problem(const char *line, const char *seen, const char *advice, const Args &...args) {
    add(line, Severity::Problem, seen, advice, fmt::make_format_args(args...));
  }
  bool isEmpty() const { return isEmpty_; }

private:
  void add(const char *line, Severity severity, const char *seen, const char *advice,
           fmt::format_args args);

  const char *check_;
  std::vector<Finding> &findings_;
  bool isEmpty_ = true;
};

struct Check {
  const char *name;
  bool needsGpu; ///< true to skip the check if there is no GPU
  void (*look)(const Facts &facts, Lines &lines);
};

// Return the checks of each file. The check for a root cause precedes the checks for its effects.
std::vector<Check> gpuChecks();
std::vector<Check> processChecks();
std::vector<Check> environmentChecks();

/// Runs all checks, in order, and returns their findings.
std::vector<Finding> runChecks(const Facts &facts);

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
