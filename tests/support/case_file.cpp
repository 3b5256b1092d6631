//===- tests/support/case_file.cpp - texts with their expected messages -----------------------===//

#include "tests/support/case_file.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace braid::test {
namespace {

constexpr llvm::StringLiteral kCase = "=== ";
constexpr llvm::StringLiteral kReported = "--- reported";

struct Case {
  std::string name, text, expected;
};

struct CaseFile {
  std::string preface;
  std::vector<Case> cases;
};

CaseFile readCases(const std::string &path) {
  CaseFile file;
  std::string *part = &file.preface;
  std::istringstream lines(readFile(path));
  for (std::string line; std::getline(lines, line);) {
    if (llvm::StringRef(line).take_front(kCase.size()) == kCase) {
      file.cases.push_back({line.substr(kCase.size()), "", ""});
      part = &file.cases.back().text;
    } else if (line == kReported) {
      part = &file.cases.back().expected;
    } else {
      *part += line + "\n";
    }
  }
  return file;
}

void writeCases(const std::string &path, const CaseFile &file, Report report) {
  std::ofstream out(path);
  out << file.preface;
  for (const Case &each : file.cases)
    out << kCase.str() << each.name << "\n"
        << each.text << kReported.str() << "\n"
        << report(each.text);
}

const char *word(Severity severity) {
  return severity == Severity::Error ? "error" : severity == Severity::Warning ? "warning" : "note";
}

} // namespace

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << "cannot read " << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string brief(const Diagnostics &diags) {
  std::string text;
  auto add = [&](const Diagnostic &message) {
    text += std::to_string(message.location.line) + ":" + std::to_string(message.location.column) +
            ": " + word(message.severity) + ": " + message.message + "\n";
  };
  for (const Diagnostic &message : diags.all()) {
    add(message);
    for (const Diagnostic &note : message.notes)
      add(note);
  }
  return text;
}

Module parseOrFail(const std::string &text) {
  Diagnostics diags("text", text);
  Module module = parse(diags);
  EXPECT_FALSE(diags.hasErrors()) << diags.str();
  return module;
}

std::string caseNamed(const std::string &path, const std::string &name) {
  for (const Case &each : readCases(path).cases)
    if (each.name == name)
      return each.text;
  ADD_FAILURE() << path << " has no case " << name;
  return "";
}

std::string fusionNamed(const std::string &path, const std::string &name) {
  const std::string file = readFile(path);
  const size_t begin = file.find("fusion @" + name + "(");
  EXPECT_NE(begin, std::string::npos) << path << " has no fusion @" << name;
  return begin == std::string::npos ? "" : file.substr(begin, file.find("\n}", begin) + 3 - begin);
}

void checkCases(const std::string &path, Report report) {
  CaseFile file = readCases(path);
  ASSERT_FALSE(file.cases.empty()) << path << " holds no case";
  if (std::getenv("BRAID_UPDATE"))
    return writeCases(path, file, report);
  std::set<std::string> names;
  for (const Case &each : file.cases) {
    SCOPED_TRACE(path + ": " + each.name);
    EXPECT_TRUE(names.insert(each.name).second) << "two cases of this name";
    EXPECT_EQ(report(each.text), each.expected);
  }
}

} // namespace braid::test
