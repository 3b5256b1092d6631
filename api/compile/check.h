//===- api/compile/check.h - checks a program across all ranks --------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/check/checker.h"

namespace braid {

/// Makes the Plans of all ranks and checks them (runtime/check/checker.h says what that proves).
/// Located mistakes that only unrolling shows are in the source's diags.
Result<CheckReport> checkProgram(const Compiled &compiled, const CheckOptions &options);
/// Rejected, with the counterexample, unless that finds its Plans safe.
Status expectSafe(const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                  const CheckOptions &options);

} // namespace braid
