//===- runtime/plan/collective_parts.h - what members of a collective give each other ---------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// The ranges that one member gives another one, and gets from it. bytes == 0: nothing.
struct CollectivePart {
  int64_t peer;
  Range send, receive;
};

/// The place of a rank in the team.
int64_t memberOf(const PlanCollective &collective, int64_t rank);

/// The parts of `rank`: its own, which it copies, and then those of the others, from the next
/// member on around the team, so that not all turn to the first one at once. `sent` and `received`
/// say what is given to a member, and what comes from one, if anything does: a broadcast comes from
/// the root alone, and a reduce goes there.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank,
                                    llvm::function_ref<Range(int64_t member)> sent,
                                    llvm::function_ref<Range(int64_t member)> received);
/// The parts of a collective that only moves data.
std::vector<CollectivePart> partsOf(const PlanCollective &collective, int64_t rank);
/// The parts of one that reduces: a rank that gets the result, or a block of it, takes the parts of
/// all into `buffer`, in the order of the team.
std::vector<CollectivePart> partsToSum(const PlanCollective &collective, int64_t rank,
                                       uint32_t buffer);

} // namespace braid
