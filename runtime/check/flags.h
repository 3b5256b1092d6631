//===- runtime/check/flags.h - no signal comes before the last one was taken ------------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Every signal but a flag's first happens after the await of the one before. Then it makes no
/// difference whether a flag counts runs or only says "there is a signal": neither loses one.
/// `before` stands at `id`.
std::optional<Violation> findEarlySignal(const History &history, const HappensBefore &before,
                                         EventId id);

} // namespace braid::checker
