//===- api/compile/plans.h - the Plans of all ranks -------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

/// Calls `fn` with the Plan of every rank, in rank order, until it fails. Only one is there at a
/// time. Located mistakes that only unrolling shows are in the source's diags, and end it.
Status forEachPlan(const Compiled &compiled, llvm::function_ref<Status(Plan plan)> fn);

/// All of them. Unsupported if they take more memory than is available, judged by the first; with
/// the check of them, if `check` says how they will be checked. Its listener hears how far this is,
/// or else `progress`.
Result<std::vector<Plan>> makePlans(const Compiled &compiled, const CheckOptions *check = nullptr,
                                    const ProgressFn &progress = {});

} // namespace braid
