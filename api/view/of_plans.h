//===- api/view/of_plans.h - pages about a program's Plans ------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/plan/plan.h"

namespace braid::view {

/// A program and the Plans of all ranks, with the text whose lines its commands are of: the file
/// that it stands in, or what a lowered one prints, read again.
struct PrintedProgram {
  std::string title;
  std::vector<std::string> lines;
  std::string program;            ///< the program alone, as Plan::text
  std::unique_ptr<Source> source; ///< what was read again; null: the caller's
  Compiled compiled;              ///< of `source`, or the caller's
  std::vector<Plan> plans;
};

/// Of a compiled program, whose source outlives the result. A program that stands in a file keeps
/// its places; a lowered one is printed with its fusion, and messages call that text `page`.
/// Unsupported if the Plans take more memory than there is. Located mistakes are in the caller's
/// source's diags.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// Of Plan::text of one program, which says nothing of the fusion but its name; `name` is what
/// messages call it.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// A page with the text and the commands of `runs` successive runs, and no times. `plans` are of
/// all ranks, or of those that stand for all (runtime/simulate/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

} // namespace braid::view
