//===- runtime/check/walk.h - goes through the events of all ranks ----------------------------===//
#pragma once

#include "runtime/check/history.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid::checker {

/// Calls `visit` for every event in every block, in an order in which the history can run, until it
/// returns false; returns whether all were visited. `order` is one of the first block's events. One
/// block is visited in just that order. Several go on one by one, each as far as it can without the
/// others, since the bytes of few ranks fit into a cache.
bool forAllInOrder(const History &history, llvm::ArrayRef<EventId> order,
                   llvm::function_ref<bool(EventId id, uint32_t block)> visit);

} // namespace braid::checker
