//===- runtime/check/transfers.h - which endpoint meets which ---------------------------------===//
#pragma once

#include "runtime/check/checker.h"
#include "runtime/plan/alike_ranks.h"

namespace braid::checker {

/// A node of a rank's program, whatever the run.
CheckedEvent describeNode(const Plan &plan, uint32_t origin);

/// For each rank and endpoint, the matching endpoint of the peer.
using Partners = std::vector<std::vector<uint32_t>>;

/// Fills `partners`, or says what does not match: an endpoint that meets none or several, other
/// bytes or types, a flag that two endpoints share, commands that signal or copy for one endpoint
/// twice, ranks that prepare differently.
std::optional<Violation> matchTransfers(llvm::ArrayRef<Plan> plans, Partners &partners,
                                        const ProgressFn &progress);

/// Which ranks stand for all in the order of events. Endpoints meet as `partners` says.
Alike findAlike(llvm::ArrayRef<Plan> plans, const Partners &partners);

} // namespace braid::checker
