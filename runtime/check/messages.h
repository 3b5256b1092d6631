//===- runtime/check/messages.h - matches groups and collectives ------------------------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::checker {

/// Finds a violation in the Plans' messages that does not depend on event order. Messages received
/// by a group must have disjoint destinations. Groups that exchange messages, directly or via other
/// groups, form a whole, in which each rank may have only one group. The members of a team must
/// issue the same collectives in the same order, with the same root, operator, type and size.
std::optional<Violation> matchMessages(llvm::ArrayRef<Plan> plans);

/// Finds a reducing collective that cannot be proved correct: its order of additions is unknown but
/// `ordered` is set, or it is not a sum but the result has a definition.
std::optional<Violation> findUnprovable(llvm::ArrayRef<Plan> plans, bool ordered, bool isDefined);

} // namespace braid::checker
