//===- runtime/check/transfers.h - matches the endpoints of transfers -------------------------===//
#pragma once

#include "runtime/check/checker.h"
#include "runtime/plan/alike_ranks.h"

namespace braid::checker {

/// Describes a node of a rank's program, without reference to a run.
CheckedEvent describeNode(const Plan &plan, uint32_t origin);

/// The peer's matching endpoint, indexed by rank and endpoint.
using Partners = std::vector<std::vector<uint32_t>>;

/// Fills `partners`, or reports a mismatch: an endpoint without exactly one partner, different
/// sizes or types, a flag shared by two endpoints, several signals or copies for one endpoint, or
/// ranks with different numbers of handle exchanges.
std::optional<Violation> matchTransfers(llvm::ArrayRef<Plan> plans, Partners &partners,
                                        const ProgressFn &progress);

/// Returns the ranks that represent all ranks with respect to the order of events. `partners` are
/// the matching endpoints.
Alike findAlike(llvm::ArrayRef<Plan> plans, const Partners &partners);

} // namespace braid::checker
