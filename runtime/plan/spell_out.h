//===- runtime/plan/spell_out.h - messages and collectives as basic commands ------------------===//
//
// A Plan keeps groups and collectives whole. The checker and the simulator expand them into
// signals, awaits, copies and sums that have the same guarantees:
//
//   * no rank continues before all members of a team, or of a whole of groups, have arrived: ranks
//     signal each other;
//   * then receivers copy from senders, and no rank continues before its data has been copied;
//   * groups and collectives of a rank use one resource, its communicators, one after the other.
//
// A library may be more lenient, but is never stricter.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace braid {

/// Groups that exchange messages, directly or via other groups.
struct Whole {
  uint32_t number = 0;                               ///< among all wholes of the job
  std::shared_ptr<const std::vector<int64_t>> ranks; ///< ranks that have a group in it, in order
};
/// Returns, for each rank, the whole to which each of its groups belongs. Messages are matched by
/// their sequence. The Plans are those of all ranks, or of the first ranks if these represent all
/// (alike_ranks.h); `ranks` then contains only these.
std::vector<std::vector<Whole>> wholesOf(llvm::ArrayRef<Plan> plans);

/// Expands the groups and collectives of the Plans of all ranks: the commands above precede each of
/// them on its stream. The command itself remains and represents the use of the communicators, a
/// write to the last buffer, `communicators`. Peers may read any buffer. A reduction becomes a sum
/// in team order, whatever its operator, although a library may add in another order. Existing
/// endpoints do not change.
///
/// Ranks synchronize in rounds: in round k, each rank signals the rank 2^k places ahead,
/// cyclically, and waits for the rank 2^k places behind. After the last round each rank has heard
/// from all others, directly or indirectly, and none has continued before: the same order as if
/// each rank signalled all others, with far fewer commands.
std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans);
/// Expands only the transfers of data, without synchronizing all ranks: senders and receivers wait
/// only for each other. A library may let a rank continue when its own messages are complete, so
/// nothing else orders accesses to peers' memory. Also accepts the Plans of the first ranks if
/// these represent all.
std::vector<Plan> spellOutData(llvm::ArrayRef<Plan> plans);

} // namespace braid
