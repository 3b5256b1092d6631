//===- api/compile/plans.h - the Plans of all ranks -------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"
#include "runtime/plan/plan.h"

namespace braid {

/// The Plan of one rank. Located mistakes that only unrolling shows are in `diags`.
Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags);

/// The Plans of all ranks, with mistakes in the source's diags. Unsupported if they take more
/// memory than is available, judged by the first; with the check of them, if `check` says how they
/// will be checked. Its listener hears how far this is, or else `progress`.
Result<std::vector<Plan>> makePlans(const Compiled &compiled, const CheckOptions *check = nullptr,
                                    const ProgressFn &progress = {});

} // namespace braid
