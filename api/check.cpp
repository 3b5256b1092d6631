//===- api/check.cpp - checks a program across all ranks --------------------------------------===//

#include "api/check.h"

#include "api/plans.h"

namespace braid {

Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options) {
  Result<std::vector<Plan>> plans = makePlans(compiled, &options);
  if (!plans)
    return plans.status();
  return check(*plans, compiled.fusion, options);
}

} // namespace braid
