//===- tests/support/alike.h - checks one rank for all against checking each ------------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::test {

/// Returns the report of check(). Returns Internal with both reports if the check that follows one
/// of several equivalent ranks (runtime/check/history.h) differs from one that follows each rank.
Result<CheckReport> checkBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                  CheckOptions options);

/// Compares both for every eighth of many cases and only calls check() for the others, which halves
/// the time. With BRAID_BOTH_WAYS=1, compares them for all cases.
Result<CheckReport> checkManyBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                      const CheckOptions &options);

/// Returns the period with which ranks are equivalent, or the number of ranks if they are not. The
/// Plans must contain no messages, or have them spelled out, and their endpoints must match.
uint32_t periodOf(llvm::ArrayRef<Plan> plans);

} // namespace braid::test
