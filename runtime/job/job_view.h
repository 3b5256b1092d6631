//===- runtime/job/job_view.h - what the ranks of a job are doing, in words -------------------===//
//
// Read from the job memory, so also for ranks that are stopped or dead. Plans name the commands;
// where there is none, numbers do. The messages about a job and the records of its ranks all have
// their words from here.
//
// The slots are written by other processes while they are read, one field at a time, so a view is
// only roughly of one moment. Nothing in it is trusted further than its type goes: numbers of
// commands, streams and queues may name nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// A command of a run.
struct CommandId {
  uint32_t run = 0;     ///< the epoch
  uint32_t command = 0; ///< Plan::firstCommand + the index into Plan::commands
  auto operator<=>(const CommandId &) const = default;

  /// `packed` is run << 32 | command, as in the job memory. Returns nothing for run 0, which does
  /// not exist: so memory that nobody has written yet names no command.
  static std::optional<CommandId> unpack(uint64_t packed);
};

/// The Plans by which messages name commands: of all ranks, of each program that the job has. They
/// outlive this, or the next add() of none.
class KnownPlans {
public:
  KnownPlans() = default;
  KnownPlans(llvm::ArrayRef<Plan> plans) { add(plans); }
  /// Adds the Plans of one program, in place of those with the same numbers; none: forgets all.
  void add(llvm::ArrayRef<Plan> plans);
  /// Forgets those, unless others have their place.
  void remove(llvm::ArrayRef<Plan> plans);
  bool empty() const { return programs_.empty(); }
  /// The one of `rank` that has a command of this number, or null.
  const Plan *find(int64_t rank, uint32_t command) const;

private:
  std::map<uint32_t, llvm::ArrayRef<Plan>> programs_; ///< by Plan::firstCommand
};

/// The command, or null if there is no Plan or no such command in it.
const Command *commandOf(const Plan *plan, CommandId id);
/// The endpoint whose signal the command awaits, or null.
const Endpoint *endpointAwaitedIn(const Plan *plan, CommandId id);

struct QueueView {
  std::optional<CommandId> current, lastDone;
  uint64_t sinceNs = 0;
  bool isWaiting = false; ///< in `current`
  uint32_t flagValue = 0, wantedValue = 0;
};

struct RankView {
  RankState state = RankState::Absent;
  HostActivity activity = HostActivity::OwnCode;
  uint64_t activitySinceNs = 0, heartbeatNs = 0;
  uint32_t runs = 0;       ///< the epoch of the last one issued
  bool isSpeaking = false; ///< in an all-gather: its part is still being sent
  std::vector<QueueView> queues;

  bool hasJoined() const { return state == RankState::Joined; }
};

/// The job's ranks as their slots were. The memory and the Plans outlive this.
class JobView {
public:
  JobView(const JobMemory &memory, const KnownPlans &plans);

  int64_t ranks() const { return memory_.ranks(); }
  bool isHere(int64_t rank) const { return memory_.isHere(rank); } ///< on this host
  uint64_t nowNs() const { return nowNs_; }
  const RankView &at(int64_t rank) const { return ranks_[static_cast<size_t>(rank)]; }
  /// The Plan of `rank` that has this command, or null.
  const Plan *plan(int64_t rank, CommandId id) const { return plans_.find(rank, id.command); }
  /// The queue to look at first, or null: one that works, the longest; else one that waits for a
  /// peer; else one that waits for another queue.
  const QueueView *leadingQueue(int64_t rank) const;

  /// Says what a queue is in, or the host thread (null): "rank 1 waits for rank 2 in ..., run 1
  /// (the flag is 1, wanted 2)", "rank 1 waits for its device".
  std::string activityText(int64_t rank, const QueueView *queue) const;
  /// The same with the time, and with what the queue, or any, has completed last: `rank 2 is in
  /// "matmul %out, %block, %B" (trip 3) at ag.braid:14:9, run 2, for 0.4 s; last completed: "%r =
  /// p2p recv ..." (trip 3) at ag.braid:12:5, run 2`.
  std::string text(int64_t rank, const QueueView *queue) const;
  /// The same of the leading queue, if there is one: one line about what holds `rank` up.
  std::string rankText(int64_t rank) const { return text(rank, leadingQueue(rank)); }

private:
  std::string commandText(int64_t rank, CommandId id) const;
  std::string lastCompleted(int64_t rank, const QueueView *queue) const;

  const JobMemory &memory_;
  const KnownPlans &plans_;
  const uint64_t nowNs_ = monotonicNs();
  std::vector<RankView> ranks_;
};

QueueView viewOf(const QueueSlot &slot);

/// "90 ms", "0.4 s".
std::string durationText(uint64_t ns);

} // namespace braid
