//===- api/compile/check.h - checks a program across all ranks --------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"

namespace braid {

/// Makes the Plans of all ranks and checks them; runtime/check/checker.h says what that proves.
/// Located mistakes that only unrolling reveals are added to the source's diags.
Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options);
/// Returns "@name is safe on 4 ranks, ...", or that it is not safe, with the counterexample.
std::string verdictOn(const Compiled &compiled, const CheckReport &report);
/// Returns Rejected, with the counterexample, unless the check finds `plans` safe.
Status expectSafe(const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                  const CheckOptions &options);
/// Makes the Plans of all ranks. Returns Rejected unless they are safe.
Result<std::vector<Plan>> makeSafePlans(const Compiled &compiled, const CheckOptions &options);

} // namespace braid
