//===- runtime/check/messages.h - matches groups and collectives ------------------------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::checker {

/// Finds a violation in the messages of Plans that does not depend on the order of events. Messages
/// received by a group must have disjoint destinations. Groups that exchange messages, directly or
/// through others, form a whole, in which each rank may have one group only. The members of a team
/// must issue the same collectives in the same order, with the same root, operator, type and size.
std::optional<Violation> matchMessages(llvm::ArrayRef<Plan> plans);

/// Finds a reduction by a collective that cannot be proved: its order of additions is unknown,
/// which violates `ordered`, and if the result is defined, it must be a sum.
std::optional<Violation> findUnprovable(llvm::ArrayRef<Plan> plans, bool ordered, bool isDefined);

} // namespace braid::checker
