//===- runtime/check/races.h - finds conflicting unordered accesses ---------------------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Visits every access in `order`, a valid execution order. Reports the first unordered pair of
/// overlapping accesses, at least one of them a write; or the first use of a buffer after its
/// release; or a command that reads the bytes it writes. Otherwise reports the first transfer that
/// is signaled again before its previous signal was awaited. Sets `accesses` to the number of
/// accesses. See HappensBefore for `relyOnMeetings`. If the history has several blocks, the
/// violation has no description, because describing it requires following every rank.
std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress);

/// Describes a race between `a` and `b`, which access overlapping bytes and at least one of which
/// writes: the consequences of each order, and a wait that would enforce the intended order.
/// Requires a history that follows every rank.
Violation describeRace(const History &history, EventId a, EventId b);

} // namespace braid::checker
