//===- runtime/job/job_snapshot.h - what a rank's slot of the job memory says, copied out -----===//
//
// The slots are written by other processes while they are read, one field at a time, so a snapshot
// is only roughly of one moment. Nothing in it is trusted further than its type goes: numbers of
// commands, streams and queues may name nothing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>
#include <vector>

namespace braid {

/// A command of a run.
struct CommandId {
  uint32_t run = 0;     ///< the epoch
  uint32_t command = 0; ///< Plan::firstCommand + the index into Plan::commands
  bool operator==(const CommandId &) const = default;
};

/// Whether a queue that has completed `done` last has completed `wanted`, a command of its own and
/// of the same Plan.
bool hasReached(CommandId done, CommandId wanted);

struct QueueSnapshot {
  std::optional<CommandId> current, lastDone;
  uint64_t sinceNs = 0;
  bool isWaiting = false;
  uint32_t flagValue = 0, wantedValue = 0;
};

/// A command that began: an entry of the flight ring.
struct FlightSnapshot {
  uint64_t sequence = 0;
  CommandId id;
  uint64_t beginNs = 0, endNs = 0; ///< endNs == 0: it has not ended
};

struct RankSnapshot {
  RankState state = RankState::Absent;
  HostActivity activity = HostActivity::OwnCode;
  uint64_t activitySinceNs = 0, heartbeatNs = 0;
  uint64_t issued = 0, completed = 0; ///< commands
  uint32_t runs = 0;                  ///< the epoch of the last one issued
  bool isSpeaking = false;            ///< in an all-gather: its part is still being sent
  std::vector<QueueSnapshot> queues;
  std::vector<FlightSnapshot> flight; ///< oldest first, without entries that were being written
};

RankSnapshot snapshotOf(const RankSlot &slot);

/// The queue that runs a stream of a rank with that many queues, or nothing if no slot shows it.
std::optional<uint32_t> queueOf(uint32_t stream, size_t queues);

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

} // namespace braid
