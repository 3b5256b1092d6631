//===- api/compile/plans.h - the Plans of all ranks -------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/plan/plan.h"
#include "runtime/progress.h"

namespace braid {

/// Makes the Plan of one rank. Errors that are found only by unrolling loops are added to `diags`.
Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags);

/// Makes the Plans of all ranks, and adds errors to the source's diags. Returns Unsupported if the
/// Plans would need more memory than is available, as estimated from the first Plan.
Result<std::vector<Plan>> makePlans(const Compiled &compiled, const ProgressFn &progress = {});

} // namespace braid
