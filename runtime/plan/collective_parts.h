//===- runtime/plan/collective_parts.h - data that members of a collective exchange -----------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// The ranges that a rank sends to and receives from a peer. An empty range means no transfer.
struct CollectivePart {
  int64_t peer;
  Range send, receive;
};

/// Returns the position of `rank` in the team.
int64_t memberOf(const PlanCollective &collective, int64_t rank);

/// Returns the parts that `rank` exchanges. The rank's own part, which it copies locally, comes
/// first. The parts of the other members follow in cyclic order, starting after `rank`, so that
/// members do not all access the same peer at once. `sent` and `received` return the range sent to
/// or received from a member. Both functions are called only for actual transfers: in a broadcast,
/// only the root sends; in a reduce, only the root receives.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank,
                                    llvm::function_ref<Range(int64_t member)> sent,
                                    llvm::function_ref<Range(int64_t member)> received);
/// Returns the parts for a collective that moves data without reducing it.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank);
/// Returns the parts for a reducing collective. Each rank that receives the result, or a block of
/// it, receives all members' parts into `buffer`, in team order.
std::vector<CollectivePart> partsToSum(const PlanCollective &collective, int64_t rank,
                                       uint32_t buffer);

} // namespace braid
