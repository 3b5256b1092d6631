//===- tests/support/alike.h - compares checking one rank for all with checking each rank -----===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::test {

/// Returns the report of check(). Returns Internal with both reports if following one of several
/// equivalent ranks (runtime/check/history.h) gives a different report from following each rank.
Result<CheckReport> checkBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                  CheckOptions options);

/// Calls checkBothWays() for every eighth call and only check() for the others, which halves the
/// time for many cases. With BRAID_BOTH_WAYS=1, calls checkBothWays() for all cases.
Result<CheckReport> checkManyBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                      const CheckOptions &options);

/// Returns the period with which ranks are equivalent, or the number of ranks if they are not. The
/// Plans must contain only expanded messages or no messages, and their endpoints must match.
uint32_t periodOf(llvm::ArrayRef<Plan> plans);

} // namespace braid::test
