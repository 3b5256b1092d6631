//===- api/pairs/block_run.h - runs that move blocks from one rank to the other ---------------===//
//
// A run is a program like any other, which the executor issues. Between transfers of one direction
// only the first signal (the receiver is ready) and the last one (all has arrived) stay, so that a
// run is the loop of copies that one would write by hand.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "runtime/execute/backend.h"
#include "runtime/execute/executor.h"

#include <deque>

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

/// The Plans of both ranks.
Result<std::vector<Plan>> blockPlans(const BlockTransfers &transfers);

/// One rank's part of a run. Goes before its cluster.
struct BlockRun {
  std::unique_ptr<Prepared> prepared;
  bool isGraph = false;
  char *sent = nullptr, *received = nullptr; ///< rows of blocks

  void issue();
};

/// Prepares the runs of one rank, one at a time.
struct BlockRuns {
  const Backend &backend;
  Cluster &cluster;
  const int64_t rank;
  std::deque<std::vector<Plan>> &plans; ///< Plans of all runs; outlive the cluster
  uint32_t nextCommand = 0;

  /// Collective; blocks. The run before has been destroyed, and all that it issued is done.
  /// Unsupported if the devices do not have this path.
  Result<BlockRun> make(const BlockTransfers &transfers);
};

} // namespace braid
