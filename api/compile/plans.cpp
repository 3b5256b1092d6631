//===- api/compile/plans.cpp - the Plans of all ranks -----------------------------------------===//

#include "api/compile/plans.h"

#include "ir/failure.h"
#include "runtime/memory_limit.h"
#include "runtime/plan/specialize.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {
namespace {

/// Returns a lower bound of the memory that the check takes. Assumes that ranks are equivalent if
/// that is possible; once all Plans are made, the check computes its exact needs.
double leastMemoryToCheck(const Plan &plan, const CheckOptions &check) {
  const double each = memoryToCheck(plan, check.runs);
  return check.eachRank ? static_cast<double>(plan.ranks) * each
                        : each + static_cast<double>(plan.ranks - 1) *
                                     std::min(each, memoryToCheckAlike(plan, check.runs));
}

/// Returns Ok if there is enough memory for such Plans on all ranks, and for their check.
Status expectMemoryLike(const Plan &plan, const CheckOptions *check) {
  const double plans = static_cast<double>(plan.ranks) * memoryOf(plan);
  if (check)
    return expectMemoryToCheck(plans + leastMemoryToCheck(plan, *check), plan.ranks, check->runs);
  return expectMemory(plans, fmt::format("the Plans of {} ranks take", plan.ranks),
                      "take fewer ranks");
}

} // namespace

Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags) {
  return specialize(*compiled.program, rank, diags, compiled.transport);
}

Result<std::vector<Plan>> makePlans(const Compiled &compiled, const CheckOptions *check,
                                    const ProgressFn &progress) {
  ProgressStep step(check ? check->progress : progress, "making Plans", "ranks",
                    static_cast<size_t>(compiled.program->ranks()));
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < compiled.program->ranks(); ++rank) {
    plans.push_back(BRAID_TRY(makePlan(compiled, rank, compiled.source->diags)));
    if (rank == 0)
      BRAID_TRY(expectMemoryLike(plans.front(), check));
    step.advance();
  }
  return plans;
}

} // namespace braid
