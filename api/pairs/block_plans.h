//===- api/pairs/block_plans.h - programs that move blocks from one rank to the other ---------===//
//
// A run is an ordinary program, which the executor issues. Transfers in one direction keep only
// their first signal (the receiver is ready) and their last one (all data have arrived), so that a
// run is equivalent to a hand-written loop of copies.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Transfers of blocks from rank `source` to the other of two ranks. Transfer i moves block i mod
/// `slots` of a row of blocks.
struct BlockTransfers {
  Path path = Path::PutEngine;
  int64_t source = 0;
  bool andBack = false; ///< each block is answered by one in the other direction
  int64_t bytes = 4;    ///< size of a block, a multiple of 4
  int64_t slots = 1, count = 1;

  bool sends(int64_t rank) const { return andBack || rank == source; }
  int64_t rowBytes() const { return slots * bytes; }
};

/// Returns the Plans of both ranks. Their only symmetric buffer contains the row that is sent,
/// followed by the row that is received.
Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers);

} // namespace braid
