//===- runtime/check/alike_races.h - races of ranks that wait for each other alike ------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// findRace() for a history of several blocks; see alike.h. A violation only says that there is a
/// race: findRace() names the first.
std::optional<Violation> findRaceOfAlike(const History &history, llvm::ArrayRef<EventId> order,
                                         bool relyOnMeetings, size_t &accesses,
                                         const ProgressFn &progress);

} // namespace braid::checker
