//===- tests/support/alike.h - compares alike ranks with ranks followed one by one ------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::test {

/// The report of check(). Internal, with both reports, if a check that treats alike ranks together
/// (runtime/check/history.h) differs from one that follows each rank.
Result<CheckReport> checkBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                  CheckOptions options);

/// The same for every eighth of many cases, and check() for the others, which takes half the time.
/// BRAID_BOTH_WAYS=1: for all of them.
Result<CheckReport> checkManyBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                      const CheckOptions &options);

/// The period of the checker's alike ranks; all ranks if they are not alike. The Plans are free of
/// messages, or spelled out, and their endpoints meet.
uint32_t periodOf(llvm::ArrayRef<Plan> plans);

} // namespace braid::test
