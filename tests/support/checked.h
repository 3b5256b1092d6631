//===- tests/support/checked.h - checks of programs given as text -----------------------------===//
#pragma once

#include "api/compile/plans.h"

#include <string>
#include <utility>
#include <vector>

namespace braid::test {

using Edit = std::pair<std::string, std::string>;
/// Applies edits to `text`. Each edit replaces its first string, which must occur exactly once,
/// with its second string.
std::string edited(std::string text, const std::vector<Edit> &edits);

/// A fusion or program, compiled from "t.braid", and the Plans of its ranks.
struct Planned {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};
/// Fails the test if there are no Plans. If `schedule` is empty, the options' schedule is used.
Planned planned(const std::string &text, const std::string &schedule = "",
                CompileOptions options = {});

struct Checked {
  std::unique_ptr<Source> source;
  Result<CheckReport> report = Status(StatusCode::Internal, "not made");
};
/// Compiles `text` as "t.braid" and checks it. Fails the test if it cannot be compiled.
Checked checked(const std::string &text, const CheckOptions &options = {});
/// Returns the report as printed, or the reason why no report is available.
std::string verdict(const std::string &text, const CheckOptions &options = {});
bool isSafe(const std::string &text, const CheckOptions &options = {});

} // namespace braid::test
