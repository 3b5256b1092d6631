//===- api/pairs/block_plans.h - programs that move blocks from one rank to the other ---------===//
//
// The executor issues these programs like any other. One-way programs keep only the first signal
// (the receiver is ready) and the last signal (all data has arrived), so that they are equivalent
// to hand-written loops of copies.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Transfers of blocks from rank `source` to the other rank. The blocks are stored in a row, and
/// transfer i moves block i mod `slots`.
struct BlockTransfers {
  Path path = Path::PutEngine;
  int64_t source = 0;
  bool andBack = false; ///< true for round trips: the receiver answers each block with a block
  int64_t bytes = 4;    ///< size of a block, a multiple of 4
  int64_t slots = 1, count = 1;

  bool sends(int64_t rank) const { return andBack || rank == source; }
  int64_t rowBytes() const { return slots * bytes; }
};

/// The only buffer of the Plans: the row of blocks to send, followed by the row of received blocks.
inline constexpr uint32_t kBlocks = 0;

/// Returns the Plans of both ranks.
Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers);

} // namespace braid
