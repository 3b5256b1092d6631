//===- api/view/of_plans.h - pages about a program's Plans ------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/plan/plan.h"

namespace braid::view {

/// A program, the Plans of all ranks, and the text to which their commands' lines refer.
struct PrintedProgram {
  std::string title;
  std::vector<std::string> lines;
  std::string program;            ///< the program alone, as Plan::text
  std::unique_ptr<Source> source; ///< the printed text; null if the program is in the caller's file
  Compiled compiled;              ///< from `source`, or the caller's
  std::vector<Plan> plans;
};

/// Prepares a compiled program for a page. Its source must outlive the result. A program from a
/// file keeps its lines; a lowered program is printed and parsed again, and messages call that text
/// `page`. Returns Unsupported if there is too little memory for the Plans. Located mistakes are
/// added to the source's diags.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// Parses Plan::text, which has no fusion. Messages call it `name`.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// Returns a page with the text and the commands of `runs` successive runs, without times. `plans`
/// are those of all ranks, or represent all ranks (runtime/plan/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

} // namespace braid::view
