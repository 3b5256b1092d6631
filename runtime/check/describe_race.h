//===- runtime/check/describe_race.h - describes two accesses that are not ordered ------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Describes a race between `a` and `b`, which access overlapping bytes and at least one of which
/// writes: the consequences of each order, and a wait that would enforce the intended order.
/// Requires a history that follows every rank.
Violation describeRace(const History &history, EventId a, EventId b);

} // namespace braid::checker
