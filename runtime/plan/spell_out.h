//===- runtime/plan/spell_out.h - messages and collectives as basic commands ------------------===//
//
// A Plan contains groups and collectives as single commands. The checker and the simulator expand
// these into signals, awaits, copies and sums that give the same guarantees:
//
///   * no rank continues until all members of the team or whole (see Whole) have arrived, because
///     ranks signal each other;
///   * then receivers copy from senders, and no rank continues until its data has been copied;
///   * a rank's groups and collectives share its communicators and therefore run one at a time.
//
// A messaging library may synchronize ranks less than these commands do, but never more.
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
/// Returns, for each rank and each group of the rank, the whole that contains the group. Sends and
/// receives are matched in order. `plans` are the Plans of all ranks, or of the first ranks if they
/// represent all ranks (alike_ranks.h). Whole::ranks then contains only the first ranks.
std::vector<std::vector<Whole>> wholesOf(llvm::ArrayRef<Plan> plans);

/// Expands the groups and collectives in the Plans of all ranks by inserting the commands described
/// above before each one, on its stream. The group or collective itself remains in the Plan, as a
/// write to an additional last buffer, `communicators`, which represents the communicators. Peers
/// may read any buffer. Every reduction operator is expanded into a sum in team order, although a
/// library may use another order. Existing endpoints do not change.
///
/// Ranks synchronize in rounds: in round k, each rank signals the rank 2^k positions ahead,
/// cyclically, and waits for the rank 2^k positions before it. After the last round, each rank has
/// received a signal, directly or indirectly, from every other rank. This gives the same ordering
/// as signals between all pairs of ranks, with far fewer commands.
std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans);
/// Expands only the data transfers, without barriers: senders and receivers wait only for each
/// other. A library may let a rank continue as soon as the rank's own messages are complete, so no
/// stronger ordering of accesses to peer memory may be assumed. Also accepts the Plans of the first
/// ranks if they represent all ranks.
std::vector<Plan> spellOutData(llvm::ArrayRef<Plan> plans);

} // namespace braid
