//===- tests/support/case_file.h - texts with their expected messages -------------------------===//
//
// A case file contains cases: a name, a text, and the expected report about the text:
//
//   === name
//   text
//   --- reported
//   2:3: error: ...
//
// To update the expected reports, run the test with BRAID_UPDATE=1 and review the difference.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::test {

std::string readFile(const std::string &path);

/// Returns messages and notes as lines of `line:column: severity: message`, without the source.
std::string brief(const Diagnostics &diags);

/// Parses `text`. Fails the test if there is an error.
Module parseOrFail(const std::string &text);

using Report = std::string (*)(const std::string &text);
/// Compares the result of `report` for every case of the file with the expected report.
void checkCases(const std::string &path, Report report);

/// Returns the text of the case or of the fusion with the given name.
std::string caseNamed(const std::string &path, const std::string &name);
std::string fusionNamed(const std::string &path, const std::string &name);

} // namespace braid::test
