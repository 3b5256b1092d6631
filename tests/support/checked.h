//===- tests/support/checked.h - programs in text, and what the checker says of them ----------===//
#pragma once

#include "api/compile/check.h"
#include "api/compile/plans.h"

#include <string>
#include <utility>
#include <vector>

namespace braid::test {

using Edit = std::pair<std::string, std::string>;
/// `text` with each edit's first part, which occurs once, replaced by its second part.
std::string edited(std::string text, const std::vector<Edit> &edits);

/// A fusion or a program of "t.braid" with the Plans of its ranks.
struct Planned {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};
/// Fails the test if there are none. An empty schedule is that of the options.
Planned planned(const std::string &text, const std::string &schedule = "",
                CompileOptions options = {});

struct Checked {
  std::unique_ptr<Source> source;
  Result<CheckReport> report = Status(StatusCode::Internal, "not made");
};
/// Fails the test if `text`, of "t.braid", cannot be compiled.
Checked checked(const std::string &text, const CheckOptions &options = {});
/// The report as printed, or why there is none.
std::string verdict(const std::string &text, const CheckOptions &options = {});
bool isSafe(const std::string &text, const CheckOptions &options = {});

} // namespace braid::test
