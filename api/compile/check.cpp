//===- api/compile/check.cpp - checks a program across all ranks ------------------------------===//

#include "api/compile/check.h"

#include "api/compile/plans.h"
#include "ir/failure.h"

#include <fmt/format.h>

namespace braid {

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
