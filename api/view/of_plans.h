//===- api/view/of_plans.h - pages about a program's Plans ------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/plan/plan.h"

namespace braid::view {

/// A program, the Plans of all ranks, and the text whose lines their commands have.
struct PrintedProgram {
  std::string title;
  std::vector<std::string> lines;
  std::string program;            ///< the program alone, as Plan::text
  std::unique_ptr<Source> source; ///< the printed text; null if the program is in the caller's file
  Compiled compiled;              ///< from `source`, or the caller's
  std::vector<Plan> plans;
};

/// For a compiled program, whose source outlives the result. A program of a file keeps its lines; a
/// lowered one is printed and read again, and messages call that text `page`. Unsupported if there
/// is too little memory for the Plans; located mistakes are in the caller's source's diags.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// For Plan::text, which has no fusion; messages call it `name`.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// A page with the text and the commands of `runs` successive runs, and no times. `plans` are those
/// of all ranks, or of ranks that stand for all (runtime/plan/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

} // namespace braid::view
