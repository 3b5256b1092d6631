//===- runtime/check/messages.h - groups and collectives that meet ----------------------------===//
#pragma once

#include "runtime/check/checker.h"

namespace braid::checker {

/// A violation in the messages of Plans that does not depend on the order of events. The messages
/// that a group receives are written to disjoint bytes. Groups that exchange messages, directly or
/// through others, form one whole, in which a rank has at most one group. Members of a team issue
/// the same collectives, in the same order, with the same root, operator, type and size.
std::optional<Violation> matchMessages(llvm::ArrayRef<Plan> plans);

/// A reduction by a collective adds in an order that nobody knows, and only a sum can be a
/// definition's. Says which one is at fault, if the additions are to be in order, or the result is
/// known.
std::optional<Violation> findUnprovable(llvm::ArrayRef<Plan> plans, bool ordered, bool isDefined);

} // namespace braid::checker
