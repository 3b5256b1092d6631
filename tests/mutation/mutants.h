//===- tests/mutation/mutants.h - programs and Plans with one mistake each --------------------===//
//
// A mutation is a function that makes one kind of mistake at its k-th site. It returns a
// description of the mistake, or nullopt if there is no k-th site, so increasing k yields all
// mutants. Mutants are not verified, because the checker must also handle programs that the
// verifier would reject.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "tests/mutation/cases.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace braid::test {

/// The description of a mistake at the k-th site, or nullopt if there is no such site. An empty
/// text means that the site exists, but this mistake cannot be made there.
using SiteText = std::optional<std::string>;

struct ProgramMutation {
  const char *name;
  SiteText (*apply)(Program &program, size_t k);
};
struct PlanMutation {
  const char *name;
  SiteText (*apply)(std::vector<Plan> &plans, size_t k);
};
llvm::ArrayRef<ProgramMutation> programMutations();
llvm::ArrayRef<ProgramMutation> sumMutations();      ///< sums and biases
llvm::ArrayRef<ProgramMutation> functionMutations(); ///< pointwise nodes
/// Returns all of the above.
std::vector<ProgramMutation> allProgramMutations();
llvm::ArrayRef<PlanMutation> planMutations();

struct Mutant {
  std::string mutation;
  std::string what;        ///< "drop `wait %r`"
  std::string text;        ///< the program, if the mistake is in the program
  std::vector<Plan> plans; ///< one per rank; empty if the mutant was rejected
  std::string refusal;     ///< the reason why there are no Plans
};

/// Returns the Plans of all ranks, or the reason why there are none.
Mutant plansOf(const std::string &program);

/// Calls `fn` for every mutant of a case, one mutation after another.
void forEachMutant(const Case &original, llvm::function_ref<void(Mutant)> fn);

/// Returns a mutant with `mistakes` mistakes, drawn from `seed`.
Mutant randomMutant(const Case &original, uint64_t seed, size_t mistakes);

} // namespace braid::test
