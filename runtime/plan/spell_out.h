//===- runtime/plan/spell_out.h - messages and collectives as basic commands ------------------===//
//
// A Plan keeps groups and collectives whole. The checker and the simulator expand them into
// signals, awaits, copies and sums that give the same guarantees:
//
//   * no rank continues until all members of the team or whole (see Whole) have arrived: ranks
//     signal each other;
//   * then receivers copy from senders, and no rank continues until its data has been copied;
//   * a rank's groups and collectives use one resource, its communicators, one at a time.
//
// A library may synchronize less than these commands, but never more.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace braid {

/// A set of groups connected by messages, directly or via other groups.
struct Whole {
  uint32_t number = 0;                               ///< unique among the job's wholes
  std::shared_ptr<const std::vector<int64_t>> ranks; ///< ranks with a group in this whole
};
/// Returns, for each rank, the whole that each of its groups belongs to. Sends and receives are
/// matched in order. `plans` are the Plans of all ranks, or of the first ranks if they represent
/// all ranks (alike_ranks.h); Whole::ranks then contains only the first ranks.
std::vector<std::vector<Whole>> wholesOf(llvm::ArrayRef<Plan> plans);

/// Expands the groups and collectives in the Plans of all ranks: inserts the commands described
/// above before each one, on its stream. The group or collective itself remains and represents the
/// use of the communicators: a write to the last buffer, `communicators`. Peers may read any
/// buffer. A reduction becomes a sum in team order, whatever its operator, although a library may
/// add in another order. Existing endpoints do not change.
///
/// Ranks synchronize in rounds: in round k, each rank signals the rank 2^k places ahead,
/// cyclically, and waits for the rank 2^k places behind. After the last round, each rank has heard
/// from all others, directly or indirectly, which gives the same ordering as if each rank had
/// signalled all others, with far fewer commands.
std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans);
/// Expands only the data transfers, without barriers: senders and receivers wait only for each
/// other. A library may let a rank continue as soon as its own messages are complete, so nothing
/// else orders accesses to peer memory. Also accepts the Plans of the first ranks if they represent
/// all ranks.
std::vector<Plan> spellOutData(llvm::ArrayRef<Plan> plans);

} // namespace braid
