//===- tests/mutation/cases.h - programs to make mutants of -----------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/execute/executor.h"
#include "tests/mutation/oracle.h"

#include <string>
#include <vector>

namespace braid::test {

/// A program that lowering made, or one written by hand. All mutants of a case are judged against
/// its fusion.
struct Case {
  std::string name;    ///< the options, on one line
  std::string program; ///< the text
  std::unique_ptr<Source> source;
  const Fusion *fusion = nullptr;
  std::unique_ptr<Oracle> oracle;
};

/// Options from which a case is made.
struct CaseOptions {
  std::string operation; ///< "matmul", "linear+bias", ...; see cases.cpp
  int64_t ranks = 2;
  std::string schedule; ///< as --schedule takes it
  /// A fusion and a program written by hand: then the rest is only its name.
  std::string text = "";
};

Result<Case> makeCase(const CaseOptions &options);

/// A few that differ in everything, for every day.
std::vector<CaseOptions> representativeCases();
/// Reductions written by hand.
std::vector<CaseOptions> reductionCases();
/// Every operation, schedule, protocol, number of streams and chunking, on 2 to 4 ranks.
std::vector<CaseOptions> allCases();

} // namespace braid::test
