//===- lowering/stages/transfers.h - queries about transfers ----------------------------------===//
#pragma once

#include "ir/program.h"

namespace braid {

/// Returns the transfer whose request `op` waits for, or null.
inline const P2POp *awaitedTransfer(const Op &op) {
  const auto *wait = llvm::dyn_cast<WaitOp>(&op);
  return wait ? llvm::dyn_cast<P2POp>(wait->request->definition) : nullptr;
}

/// True on the side that copies the data: the receiver with get, the sender with put. On that side,
/// later work on the same stream starts after the copy is complete.
inline bool copiesHere(const P2POp &transfer) {
  return (transfer.protocol() == Protocol::Put) == (transfer.direction == Direction::Send);
}

} // namespace braid
