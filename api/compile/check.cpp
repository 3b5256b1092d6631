//===- api/compile/check.cpp - checks a program across all ranks ------------------------------===//

#include "api/compile/check.h"

#include "api/compile/plans.h"
#include "ir/failure.h"

namespace braid {

Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options) {
  std::vector<Plan> plans = BRAID_TRY(makePlans(compiled, &options));
  return check(plans, compiled.fusion, options);
}

} // namespace braid
