//===- api/check.cpp - checks a program across all ranks --------------------------------------===//

#include "api/check.h"

#include "runtime/specialize.h"

namespace braid {

Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options) {
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < compiled.program->ranks(); ++rank) {
    Result<Plan> plan = specialize(*compiled.program, rank, compiled.source->diags);
    if (!plan)
      return plan.status();
    plans.push_back(std::move(*plan));
  }
  return check(plans, compiled.fusion, options);
}

} // namespace braid
