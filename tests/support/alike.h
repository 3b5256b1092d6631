//===- tests/support/alike.h - compares two ways of checking equivalent ranks -----------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::test {

/// Checks the Plans in two ways: by following only one of several equivalent ranks
/// (runtime/check/history.h), and by following every rank. Returns the report of check(), or
/// Internal with both reports if they differ.
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
