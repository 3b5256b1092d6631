//===- tests/mutation/mutants.cpp - programs and Plans with one mistake each ------------------===//

#include "tests/mutation/mutants.h"

#include "runtime/plan/specialize.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <random>

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

std::vector<ProgramMutation> allProgramMutations() {
  std::vector<ProgramMutation> all = programMutations().vec();
  llvm::append_range(all, sumMutations());
  llvm::append_range(all, functionMutations());
  return all;
}

Mutant plansOf(const std::string &program) {
  Mutant mutant;
  std::unique_ptr<Source> source = parseSource("mutated.braid", program);
  makePlans(*source->module.programs.front(), source->diags, mutant);
  return mutant;
}

void forEachMutant(const Case &original, llvm::function_ref<void(Mutant)> fn) {
  for (const ProgramMutation &mutation : allProgramMutations())
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

namespace {

/// Applies a mutation at a random site. Counts the sites on copies, which `fresh` returns.
template <class Mutation, class Subject, class FreshFn>
std::string applySomewhere(const Mutation &mutation, Subject &subject, FreshFn fresh,
                           std::mt19937_64 &random) {
  size_t sites = 0;
  while (fresh([&](Subject &copy) { return mutation.apply(copy, sites).has_value(); }))
    ++sites;
  if (sites == 0)
    return "";
  SiteText what = mutation.apply(subject, random() % sites);
  return what->empty() ? "" : fmt::format("{}: {}\n", mutation.name, *what);
}

std::string mutateProgram(Program &program, std::mt19937_64 &random) {
  const std::vector<ProgramMutation> mutations = allProgramMutations();
  const std::string text = str(program);
  auto fresh = [&](auto &&fn) {
    return fn(*parseSource("mutated.braid", text)->module.programs.front());
  };
  return applySomewhere(mutations[random() % mutations.size()], program, fresh, random);
}

std::string mutatePlans(std::vector<Plan> &plans, std::mt19937_64 &random) {
  llvm::ArrayRef<PlanMutation> mutations = planMutations();
  auto fresh = [&](auto &&fn) {
    std::vector<Plan> copy = plans;
    return fn(copy);
  };
  return applySomewhere(mutations[random() % mutations.size()], plans, fresh, random);
}

} // namespace

Mutant randomMutant(const Case &original, uint64_t seed, size_t mistakes) {
  std::mt19937_64 random(seed);
  const size_t inProgram = random() % (mistakes + 1);
  Mutant mutant{"several mistakes", "", "", {}, ""};
  std::unique_ptr<Source> source = parseSource("mutated.braid", original.program);
  for (size_t i = 0; i < inProgram; ++i) {
    mutant.what += mutateProgram(*source->module.programs.front(), random);
    source = parseSource("mutated.braid", str(*source->module.programs.front()));
  }
  mutant.text = str(*source->module.programs.front());
  makePlans(*source->module.programs.front(), source->diags, mutant);
  for (size_t i = inProgram; i < mistakes && !mutant.plans.empty(); ++i)
    mutant.what += mutatePlans(mutant.plans, random);
  return mutant;
}

} // namespace braid::test
