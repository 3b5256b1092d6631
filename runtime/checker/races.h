//===- runtime/checker/races.h - conflicting accesses that nothing orders -----------------------===//
#pragma once

#include "runtime/checker/history.h"

namespace braid::checker {

/// Looks at every access in `order`, an order in which the history can run. Reports the first pair that
/// overlaps, of which one writes, and that `before` does not order; and the first use of a buffer that
/// its own release does not come after. Counts accesses.
std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  const HappensBefore &before, size_t &accesses);

} // namespace braid::checker
