//===- runtime/check/races.h - conflicting accesses that nothing orders -----------------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Looks at every access in `order`, an order in which the history can run. Reports the first pair
/// that overlaps, of which one writes, and that nothing orders; or the first use of a buffer after
/// its own release; or a command that reads the bytes it writes. If there is none of them, reports
/// the first transfer that is signalled again before it was awaited. Counts accesses.
/// `relyOnMeetings`: see HappensBefore. For a history of several blocks, a violation only says that
/// there is one: to name it, ranks have to be followed one by one.
std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress);

} // namespace braid::checker
