//===- tests/support/case_file.h - texts with the messages they must give ---------------------===//
//
// A case file holds cases, each of them a name, a text, and what is reported about it:
//
//   === name
//   text
//   --- reported
//   2:3: error: ...
//
// To take over what Braid reports now, run the test with BRAID_UPDATE=1, then read the difference.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::test {

std::string readFile(const std::string &path);

/// Every message and note as one line, `line:column: severity: message`, without the source.
std::string brief(const Diagnostics &diags);

/// Parses; fails the test if there is an error.
Module parseOrFail(const std::string &text);

using Report = std::string (*)(const std::string &text);
/// Checks every case of the file with what `report` says about its text.
void checkCases(const std::string &path, Report report);

/// The text of the case of that name, or the fusion of that name in a file of fusions.
std::string caseNamed(const std::string &path, const std::string &name);
std::string fusionNamed(const std::string &path, const std::string &name);

} // namespace braid::test
