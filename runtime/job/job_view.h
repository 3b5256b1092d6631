//===- runtime/job/job_view.h - what the ranks of a job are doing, in words -------------------===//
//
// Read from the job memory, so also for ranks that are stopped or dead. Plans name the commands;
// where there is none, numbers do. The messages about a job and the records of its ranks all have
// their words from here.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_snapshot.h"

#include <string>

namespace braid {

/// The job's ranks, each as its slot was when it was first looked at. The memory and the Plans
/// outlive this.
class JobView {
public:
  JobView(const JobMemory &memory, const KnownPlans &plans)
      : memory_(memory), plans_(plans), ranks_(static_cast<size_t>(memory.ranks())) {}

  int64_t ranks() const { return memory_.ranks(); }
  bool isHere(int64_t rank) const { return memory_.isHere(rank); } ///< on this host
  uint64_t nowNs() const { return nowNs_; }
  const RankSnapshot &at(int64_t rank) const;
  /// The Plan of `rank` that has this command, or null.
  const Plan *plan(int64_t rank, CommandId id) const { return plans_.find(rank, id.command); }
  /// The queue to look at first, or null: one that works, the longest; else one that waits for a
  /// peer; else one that waits for another queue.
  const QueueSnapshot *leadingQueue(int64_t rank) const;

  /// One line about what holds `rank` up or what it is doing, and how far it is: `rank 2 is in
  /// "matmul %out, %block, %B" (trip 3) at ag.braid:14:9, run 2, for 0.4 s; last completed: "%r =
  /// p2p recv ..." (trip 3) at ag.braid:12:5, run 2`.
  std::string rankText(int64_t rank) const;
  /// The same about one of its queues, which is in a command.
  std::string queueText(int64_t rank, const QueueSnapshot &queue) const;
  /// The same about its host thread.
  std::string hostText(int64_t rank) const;

  /// "rank 1 waits for rank 2 in ..., run 1 (the flag is 1, wanted 2)".
  std::string waitText(int64_t rank, const QueueSnapshot &queue) const;
  /// "rank 1 waits for its device".
  std::string activityText(int64_t rank) const;
  /// "; last completed: ..., run 2": by that queue; else, or if it is null, by the rank.
  std::string lastCompleted(int64_t rank, const QueueSnapshot *queue) const;

private:
  std::string commandText(int64_t rank, CommandId id) const;
  std::string lasting(uint64_t sinceNs) const;

  const JobMemory &memory_;
  const KnownPlans &plans_;
  const uint64_t nowNs_ = monotonicNs();
  mutable std::vector<std::optional<RankSnapshot>> ranks_;
};

/// "90 ms", "0.4 s".
std::string durationText(uint64_t ns);

} // namespace braid
