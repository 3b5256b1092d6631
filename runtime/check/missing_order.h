//===- runtime/check/missing_order.h - finds a wait that would order two accesses -------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// The intended order of two unordered accesses to a rank's memory, and a wait that would ensure
/// it. The intended order is the order in which the rank issues its local commands and, for a
/// peer's access, the signal that permits the access and the await of its end.
struct MissingOrder {
  bool isSwapped = false; ///< the second access is intended to be first
  /// "on rank 1, main has to synchronize with stream(0) after ... and before ...".
  std::string wait;
};

/// `first` and `second` access memory of `rank`. Returns nullopt if the rank has no signal or await
/// for one of them. Requires a history that follows every rank.
std::optional<MissingOrder> findMissingOrder(const History &history, EventId first, EventId second,
                                             uint32_t rank);

} // namespace braid::checker
