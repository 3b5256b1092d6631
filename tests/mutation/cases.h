//===- tests/mutation/cases.h - programs that are mutated -------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/execute/executor.h"
#include "tests/mutation/oracle.h"

#include <string>
#include <vector>

namespace braid::test {

/// A lowered or hand-written program. All its mutants are judged against its fusion.
struct Case {
  std::string name;    ///< the options in one line
  std::string program; ///< text of the program
  std::unique_ptr<Source> source;
  const Fusion *fusion = nullptr;
  std::unique_ptr<Oracle> oracle;
};

/// Options that determine a case.
struct CaseOptions {
  std::string operation; ///< "matmul", "linear+bias", ...; see cases.cpp
  int64_t ranks = 2;
  std::string schedule; ///< in the syntax of --schedule
  /// The text of a hand-written fusion and program. If it is set, the other options affect only the
  /// name.
  std::string text = "";
};

Result<Case> makeCase(const CaseOptions &options);

/// Returns a few cases that differ in every option, for quick runs.
std::vector<CaseOptions> representativeCases();
/// Returns the hand-written reductions.
std::vector<CaseOptions> reductionCases();
/// Returns cases for all operations, schedules, protocols, streams and chunkings, on 2 to 4 ranks.
std::vector<CaseOptions> allCases();

} // namespace braid::test
