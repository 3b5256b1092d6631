//===- runtime/check/missing_order.h - which wait would order two accesses --------------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// Which of two unordered accesses to a rank's memory the program means to come first, and the wait
/// that would see to it. A rank issues its own commands, and for a peer's access the signal that
/// allows it and the await of its end; the order in which it issues these is the one that is meant.
struct MissingOrder {
  bool isSwapped = false; ///< the second of the two is meant to come first
  std::string wait; ///< "on rank 1, main has to synchronize with stream(0) after ... and before
                    ///< ..."
};

/// `first` and `second` touch memory of `rank`. Nothing if the rank has no signal or await for one
/// of them. Ranks are followed one by one.
std::optional<MissingOrder> findMissingOrder(const History &history, EventId first, EventId second,
                                             uint32_t rank);

} // namespace braid::checker
