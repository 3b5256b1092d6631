//===- runtime/check/missing_order.h - finds a wait that would order two accesses -------------===//
#pragma once

#include "runtime/check/history.h"

namespace braid::checker {

/// The intended order of two unordered accesses to a rank's memory, and a wait that would enforce
/// it. The intended order is the rank's issue order, in which a peer's access is represented by the
/// signal that permits it and the await for its end.
struct MissingOrder {
  bool isSwapped = false; ///< the second access is intended to run first
  /// For example "on rank 1, main has to synchronize with stream(0) after ... and before ...".
  std::string wait;
};

/// `first` and `second` must access memory of `rank`. Returns nullopt if the rank has no signal or
/// await for one of the accesses. Requires a history that follows every rank.
std::optional<MissingOrder> findMissingOrder(const History &history, EventId first, EventId second,
                                             uint32_t rank);

} // namespace braid::checker
