//===- tests/support/alike.h - compares alike ranks with ranks followed one by one ------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::test {

/// What check() says; Internal, with both reports, if following alike ranks as such
/// (runtime/check/alike.h) says anything else than following each rank.
Result<CheckReport> checkBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                  CheckOptions options);

/// The same for every eighth of many cases, and check() for the others, which takes half the time.
/// BRAID_BOTH_WAYS=1: for all of them.
Result<CheckReport> checkManyBothWays(llvm::ArrayRef<Plan> plans, const Fusion *fusion,
                                      const CheckOptions &options);

/// How many ranks the checker moves ranks by, all of them if they are not alike. The Plans are free
/// of messages, or spelled out, and their endpoints meet.
uint32_t periodOf(llvm::ArrayRef<Plan> plans);

} // namespace braid::test
