//===- api/compile/plans.cpp - the Plans of all ranks, and their check ------------------------===//

#include "api/compile/plans.h"

#include "ir/failure.h"
#include "runtime/memory_limit.h"
#include "runtime/plan/specialize.h"

#include <fmt/format.h>

namespace braid {

Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags) {
  Result<Plan> plan = specialize(*compiled.program, rank, diags, compiled.transport);
  return plan ? std::move(plan) : withLocated(plan.status(), diags);
}

Result<std::vector<Plan>> makePlans(const Compiled &compiled, const ProgressFn &progress) {
  const int64_t ranks = compiled.program->ranks();
  ProgressStep step(progress, "making Plans", "ranks", static_cast<size_t>(ranks));
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    plans.push_back(BRAID_TRY(makePlan(compiled, rank, compiled.source->diags)));
    if (rank == 0)
      BRAID_TRY(expectMemory(static_cast<double>(ranks) * memoryOf(plans.front()),
                             fmt::format("the Plans of {} ranks take", ranks), "use fewer ranks"));
    step.advance();
  }
  return plans;
}

Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options) {
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled, options.progress));
  return check(plans, compiled.fusion, options);
}

std::string verdictOn(const Compiled &compiled, const CheckReport &report) {
  return fmt::format("@{} is {}", compiled.program->name(), str(report));
}

Status expectSafe(const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                  const CheckOptions &options) {
  const CheckReport report = BRAID_TRY(check(plans, compiled.fusion, options));
  return report.isSafe() ? Status::ok() : Status(StatusCode::Rejected, verdictOn(compiled, report));
}

Result<std::vector<Plan>> makeSafePlans(const Compiled &compiled, const CheckOptions &options) {
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled, options.progress));
  BRAID_TRY(expectSafe(compiled, plans, options));
  return plans;
}

} // namespace braid
