//===- runtime/job/job_view.h - describes what the ranks of a job are doing -------------------===//
//
// A view is a snapshot of the job memory, so it also covers ranks that are stopped or dead. A
// command is identified by its name in the Plan, or by its number if the Plan is unknown. All
// messages about a job and all flight records use these descriptions.
//
// Other processes may update individual fields of a slot while it is being read, so a view may be
// slightly inconsistent. Its command, stream and queue numbers are not validated.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct CommandId {
  uint32_t run = 0;     ///< the epoch
  uint32_t command = 0; ///< Plan::firstCommand + the index into Plan::commands
  auto operator<=>(const CommandId &) const = default;

  /// Unpacks run << 32 | command, as stored in the job memory. Returns nullopt for run 0, so that
  /// zeroed memory does not identify a command.
  static std::optional<CommandId> unpack(uint64_t packed);
};

/// The Plans of all ranks and programs of the job, used to name commands in messages. Plans must
/// stay alive until they are removed or cleared, or this object is destroyed.
class KnownPlans {
public:
  /// Guards the Plans. add() and remove() acquire it; readers must hold it while other threads may
  /// add or remove Plans.
  std::mutex mutex;

  KnownPlans() = default;
  KnownPlans(llvm::ArrayRef<Plan> plans) { add(plans); }
  /// Adds one program's Plans, replacing any with the same command numbers. An empty list clears
  /// all Plans.
  void add(llvm::ArrayRef<Plan> plans);
  /// Removes `plans`, unless other Plans have replaced them.
  void remove(llvm::ArrayRef<Plan> plans);
  bool empty() const { return programs_.empty(); }
  /// Returns the Plan of `rank` that contains `command`, or null if it is unknown.
  const Plan *find(int64_t rank, uint32_t command) const;

private:
  std::map<uint32_t, llvm::ArrayRef<Plan>> programs_; ///< keyed by Plan::firstCommand
};

/// Returns the command, or null if `plan` is null or does not contain `id`.
const Command *commandOf(const Plan *plan, CommandId id);
/// Returns the endpoint whose signal the command `id` awaits, or null if it awaits none.
const Endpoint *endpointAwaitedIn(const Plan *plan, CommandId id);

struct QueueView {
  std::optional<CommandId> current, lastDone;
  uint64_t sinceNs = 0;
  bool isWaiting = false; ///< whether `current` is blocked
  uint32_t flagValue = 0, wantedValue = 0;
};

struct RankView {
  RankState state = RankState::Absent;
  HostActivity activity = HostActivity::OwnCode;
  uint64_t activitySinceNs = 0, heartbeatNs = 0;
  uint32_t runs = 0;    ///< the epoch of the last issued run
  uint32_t gathers = 0; ///< number of the last all-gather that the rank joined
  std::vector<QueueView> queues;

  bool hasJoined() const { return state == RankState::Joined; }
};

/// A snapshot of all ranks' slots. The memory and the Plans must outlive this object.
class JobView {
public:
  JobView(const JobMemory &memory, const KnownPlans &plans);

  const JobMemory &memory() const { return memory_; }
  uint64_t nowNs() const { return nowNs_; }
  const RankView &at(int64_t rank) const { return ranks_[static_cast<size_t>(rank)]; }
  /// Returns the Plan of `rank` that contains the command `id`, or null if it is unknown.
  const Plan *plan(int64_t rank, CommandId id) const { return plans_.find(rank, id.command); }
  /// Returns the queue that best explains the state of `rank`: the one whose command has been
  /// executing longest, else one that waits for a peer, else one that waits for another queue.
  /// Returns null if all queues are idle.
  const QueueView *leadingQueue(int64_t rank) const;

  /// Describes the state of `queue`, or of the host thread if `queue` is null, for example "rank
  /// 1 is waiting for rank 2 in ..., run 1 (the flag is 1, expected 2)" or "rank 1 has left".
  std::string activityText(int64_t rank, const QueueView *queue) const;
  /// Returns activityText(), followed by the duration and the last command that the queue (or the
  /// rank) has completed: `rank 2 is executing "matmul %out, %block, %B" (trip 3) at ag.braid:14:9,
  /// run 2, for 0.4 s so far; last completed: "%r = p2p ..." (trip 3) at ag.braid:12:5, run 2`.
  std::string text(int64_t rank, const QueueView *queue) const;
  /// Returns text() for the leading queue: one line that explains what is holding up `rank`.
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

/// Formats a duration, for example "90 ms" or "0.4 s".
std::string durationText(uint64_t ns);

} // namespace braid
