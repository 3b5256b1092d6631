//===- api/compile/check.h - checks a program across all ranks --------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"

namespace braid {

/// Makes the Plans of all ranks and checks them; runtime/check/checker.h lists the proven
/// properties. Errors that are found only by unrolling loops are added to the source's diags.
Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options);
/// Returns "@name is safe on 4 ranks, ...", or, if the program is unsafe, the counterexample.
std::string verdictOn(const Compiled &compiled, const CheckReport &report);
/// Checks `plans`. Returns Rejected with a counterexample if they are unsafe.
Status expectSafe(const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                  const CheckOptions &options);
/// Makes and checks the Plans of all ranks. Returns Rejected if they are unsafe.
Result<std::vector<Plan>> makeSafePlans(const Compiled &compiled, const CheckOptions &options);

} // namespace braid
