//===- tests/mutation/mutants.cpp - programs and Plans with one mistake each ------------------===//

#include "tests/mutation/mutants.h"

#include "runtime/specialize.h"

namespace braid::test {
namespace {

void makePlans(const Program &program, Diagnostics &diags, Mutant &mutant) {
  for (int64_t rank = 0; rank < program.ranks(); ++rank) {
    Result<Plan> plan = specialize(program, rank, diags);
    if (!plan) {
      mutant.plans.clear();
      mutant.refusal = plan.status().message() + "\n" + diags.str();
      return;
    }
    mutant.plans.push_back(std::move(*plan));
  }
}

} // namespace

Mutant plansOf(const std::string &program) {
  Mutant mutant;
  std::unique_ptr<Source> source = parseSource("mutated.braid", program);
  makePlans(*source->module.programs.front(), source->diags, mutant);
  return mutant;
}

void forEachMutant(const Case &original, llvm::function_ref<void(Mutant)> fn) {
  for (const ProgramMutation &mutation : programMutations())
    for (size_t k = 0;; ++k) {
      std::unique_ptr<Source> source = parseSource("mutated.braid", original.program);
      Program &program = *source->module.programs.front();
      SiteText what = mutation.apply(program, k);
      if (!what)
        break;
      if (what->empty())
        continue;
      Mutant mutant{mutation.name, *what, str(program), {}, ""};
      makePlans(program, source->diags, mutant);
      fn(std::move(mutant));
    }
  const std::vector<Plan> plans = plansOf(original.program).plans;
  for (const PlanMutation &mutation : planMutations())
    for (size_t k = 0;; ++k) {
      std::vector<Plan> mutated = plans;
      SiteText what = mutation.apply(mutated, k);
      if (!what)
        break;
      if (!what->empty())
        fn({mutation.name, *what, "", std::move(mutated), ""});
    }
}

} // namespace braid::test
