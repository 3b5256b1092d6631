//===- api/compile/plans.h - the Plans of all ranks, and their check --------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"

namespace braid {

/// Makes the Plan of one rank. Errors that are found only by unrolling loops are added to `diags`,
/// and listed in the Status.
Result<Plan> makePlan(const Compiled &compiled, int64_t rank, Diagnostics &diags);

/// Makes the Plans of all ranks, like makePlan() with the source's diags. Returns Unsupported if
/// the Plans would need more memory than is available, as estimated from the first Plan.
Result<std::vector<Plan>> makePlans(const Compiled &compiled, const ProgressFn &progress = {});

/// Makes the Plans of all ranks and checks them; runtime/check/checker.h lists the proven
/// properties.
Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options);
/// Returns "@name is safe on 4 ranks, ...", or, if the program is unsafe, the counterexample.
std::string verdictOn(const Compiled &compiled, const CheckReport &report);
/// Checks `plans`. Returns Rejected with a counterexample if they are unsafe.
Status expectSafe(const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                  const CheckOptions &options);
/// Makes and checks the Plans of all ranks. Returns Rejected if they are unsafe.
Result<std::vector<Plan>> makeSafePlans(const Compiled &compiled, const CheckOptions &options);

} // namespace braid
