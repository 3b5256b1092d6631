//===- api/view/of_plans.h - pages about a program's Plans ------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/plan/plan.h"

namespace braid::view {

/// A program, read again from what it prints, so that lines of its commands are lines of the text;
/// and the Plans of all ranks.
struct PrintedProgram {
  std::string title;
  std::vector<std::string>
      lines;           ///< of the fusion that it implements, if that is known, and its own
  std::string program; ///< its own alone, as Plan::text
  std::unique_ptr<Source> source;
  Compiled compiled; ///< of `source`
  std::vector<Plan> plans;
};

/// Of a compiled program; messages call it `page`, and name its lines. Unsupported if the Plans
/// take more memory than there is.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// Of Plan::text of one program, which says nothing of the fusion but its name; `name` is what
/// messages call it.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// A page with the text and the commands of `runs` successive runs, and no times. `plans` are of
/// all ranks, or of those that stand for all (runtime/simulate/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

} // namespace braid::view
