//===- runtime/check/races.h - conflicting accesses that nothing orders -----------------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Looks at every access in `order`, an order in which the history can run. Reports the first pair
/// that overlaps, of which one writes, and that nothing orders; and the first use of a buffer after
/// its own release; if there is none of them, the first early signal (flags.h). Counts accesses.
/// `relyOnMeetings`: see HappensBefore.
std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress);

} // namespace braid::checker
