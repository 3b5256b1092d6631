//===- tests/support/checked.h - programs in text, and what the checker says of them ----------===//
#pragma once

#include "api/compile/check.h"

#include <string>
#include <utility>
#include <vector>

namespace braid::test {

using Edit = std::pair<std::string, std::string>;
/// `text` with each edit's first part, which occurs once, replaced by its second part.
std::string edited(std::string text, const std::vector<Edit> &edits);

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
