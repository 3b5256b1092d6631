//===- tests/mutation/mutants.h - programs and Plans with one mistake each --------------------===//
//
// A mutation is a function that makes one kind of mistake at its k-th site. It says what it did,
// or that there is no k-th site, so that all mutants are made by counting up. Programs are not
// verified afterwards: what the verifier would refuse shall meet the checker, too.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "tests/mutation/cases.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace braid::test {

/// A mutation at its k-th site; what was done, or nothing if there is no such site. An empty text
/// means that the site exists, but the mistake cannot be made there.
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
llvm::ArrayRef<ProgramMutation> sumMutations();      ///< mutations of sums and biases
llvm::ArrayRef<ProgramMutation> functionMutations(); ///< mutations of pointwise nodes
/// All of these.
std::vector<ProgramMutation> allProgramMutations();
llvm::ArrayRef<PlanMutation> planMutations();

struct Mutant {
  std::string mutation;
  std::string what;        ///< "drop `wait %r`"
  std::string text;        ///< the program, if it was the program that was changed
  std::vector<Plan> plans; ///< one for each rank; empty if the mutant was refused
  std::string refusal;     ///< why there are no Plans
};

/// The Plans of all ranks of a program's text; if there are none, why.
Mutant plansOf(const std::string &program);

/// Calls `fn` for every mutant of a case, mutation by mutation.
void forEachMutant(const Case &original, llvm::function_ref<void(Mutant)> fn);

/// A mutant with `mistakes` mistakes, drawn from the seed.
Mutant randomMutant(const Case &original, uint64_t seed, size_t mistakes);

} // namespace braid::test
