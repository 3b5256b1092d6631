//===- api/pairs/block_runs.h - runs that move blocks between ranks, ready to be issued -------===//
#pragma once

#include "api/pairs/host_path.h"
#include "api/pairs/pair_programs.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// One rank's part of a run over one path.
class BlockRun {
public:
  virtual ~BlockRun() = default;
  /// Issues the run, as Prepared::run().
  virtual void issue() = 0;
  /// How many runs can be issued before the other side has issued any. To issue more may have to
  /// wait for the other side.
  virtual int64_t mostAhead() const = 0;
  /// What this rank sends, and what it receives: rows of blocks, see Moves.
  char *mine() const { return mine_; }
  char *theirs() const { return theirs_; }
  /// The Plan that names the run's commands.
  virtual const Plan &plan() const = 0;

protected:
  char *mine_ = nullptr, *theirs_ = nullptr;
};

/// Makes the runs of one rank, one at a time. Goes before the cluster; `plans` go after it.
class BlockRuns {
public:
  BlockRuns(const Backend &backend, Cluster &cluster, int64_t rank, TimedPlans &plans)
      : backend_(backend), cluster_(cluster), rank_(rank), plans_(plans) {}

  /// Why this path is not to be had on this device; empty: it may be. The same on all ranks.
  std::string lackOf(Path path) const;
  /// Collective; blocks. The run before has gone, and all that was issued is done.
  Result<std::unique_ptr<BlockRun>> make(const BlockTransfers &transfers, const Moves &moves);

private:
  Device &device() const { return cluster_.device(rank_); }
  TransferMode modeOf(Path path) const;
  Result<std::unique_ptr<BlockRun>> makeProgram(const BlockTransfers &transfers,
                                                const Moves &moves);
  Result<std::unique_ptr<BlockRun>> makeHost(const BlockTransfers &transfers, const Moves &moves);

  const Backend &backend_;
  Cluster &cluster_;
  const int64_t rank_;
  TimedPlans &plans_;
  uint32_t nextCommand_ = 0;
  std::unique_ptr<HostPath> host_;
};

} // namespace braid
