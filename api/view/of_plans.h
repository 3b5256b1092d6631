//===- api/view/of_plans.h - pages that show a program's Plans --------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/plan/plan.h"

namespace braid::view {

/// A program, the Plans of all ranks, and the text to which the commands' line numbers refer.
struct PrintedProgram {
  std::string title;
  std::vector<std::string> lines;
  std::string program;            ///< the program without its fusion, like Plan::text
  std::unique_ptr<Source> source; ///< the printed text; null if the program is from a file
  Compiled compiled;              ///< compiled from `source`, or by the caller
  std::vector<Plan> plans;
};

/// Prepares a compiled program for a page. The program's source must outlive the result. A program
/// from a file keeps its line numbers; a lowered program is printed and parsed again, and messages
/// refer to it as file `page`. Returns Unsupported if there is not enough memory for the Plans.
/// Adds errors with source locations to the source's diagnostics.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// Parses Plan::text, which does not contain the fusion. Messages use `name` as the file name.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// Returns a page with the text and the commands of `runs` consecutive runs, without times. `plans`
/// are the Plans of all ranks, or Plans that represent all ranks (runtime/plan/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

} // namespace braid::view
