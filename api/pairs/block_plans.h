//===- api/pairs/block_plans.h - programs that move blocks from one rank to the other ---------===//
//
// A run is a program like any other, which the executor issues. Between transfers of one direction
// only the first signal (the receiver is ready) and the last one (all has arrived) stay, so that a
// run is the loop of copies that one would write by hand.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Transfers of blocks from rank `source` to the other one of two ranks. Transfer number i moves
/// block i mod `slots` of a row of blocks.
struct BlockTransfers {
  Path path = Path::PutEngine;
  int64_t source = 0;
  bool andBack = false; ///< each block is answered by one
  int64_t bytes = 4;    ///< size of a block, a multiple of 4
  int64_t slots = 1, count = 1;

  bool sends(int64_t rank) const { return andBack || rank == source; }
  int64_t rowBytes() const { return slots * bytes; }
};

/// The Plans of both ranks. Their only symmetric buffer has the row that is sent, and then the row
/// that is received.
Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers);

} // namespace braid
