//===- api/compile/plans.cpp - the Plans of all ranks -----------------------------------------===//

#include "api/compile/plans.h"

#include "ir/failure.h"
#include "runtime/memory_limit.h"
#include "runtime/plan/specialize.h"

#include <fmt/format.h>

namespace braid {

Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags) {
  return specialize(*compiled.program, rank, diags, compiled.transport);
}

Result<std::vector<Plan>> makePlans(const Compiled &compiled, const ProgressFn &progress) {
  const int64_t ranks = compiled.program->ranks();
  ProgressStep step(progress, "making Plans", "ranks", static_cast<size_t>(ranks));
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    plans.push_back(BRAID_TRY(makePlan(compiled, rank, compiled.source->diags)));
    if (rank == 0)
      BRAID_TRY(expectMemory(static_cast<double>(ranks) * memoryOf(plans.front()),
                             fmt::format("the Plans of {} ranks take", ranks), "take fewer ranks"));
    step.advance();
  }
  return plans;
}

} // namespace braid
