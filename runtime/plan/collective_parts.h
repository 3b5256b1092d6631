//===- runtime/plan/collective_parts.h - data that members of a collective exchange -----------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// The ranges that a member sends to a peer and receives from it. An empty range means no transfer.
struct CollectivePart {
  int64_t peer;
  Range send, receive;
};

/// Returns the position of `rank` in the team.
int64_t memberOf(const PlanCollective &collective, int64_t rank);

/// Returns the parts of `rank`: its own, which it copies, then those of the other members, from the
/// next member onwards around the team, so that not all members access the first one at once.
/// `sent` and `received` return the range sent to or received from a member, if there is one: only
/// the root of a broadcast sends, and only the root of a reduce receives.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank,
                                    llvm::function_ref<Range(int64_t member)> sent,
                                    llvm::function_ref<Range(int64_t member)> received);
/// Returns the parts of a collective that only moves data.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank);
/// Returns the parts of a collective that reduces: a rank that receives the result, or a block of
/// it, receives the parts of all members into `buffer`, in team order.
std::vector<CollectivePart> partsToSum(const PlanCollective &collective, int64_t rank,
                                       uint32_t buffer);

} // namespace braid
