//===- api/plans.cpp - the Plans of all ranks -------------------------------------------------===//

#include "api/plans.h"

#include "runtime/specialize.h"

namespace braid {

Result<std::vector<Plan>> makePlans(const Compiled &compiled) {
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < compiled.program->ranks(); ++rank) {
    Result<Plan> plan = specialize(*compiled.program, rank, compiled.source->diags);
    if (!plan)
      return plan.status();
    plans.push_back(std::move(*plan));
  }
  return plans;
}

} // namespace braid
