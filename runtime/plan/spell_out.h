//===- runtime/plan/spell_out.h - what messages guarantee, command by command -----------------===//
//
// A Plan keeps groups and collectives whole. What they guarantee can be said
// with signals, awaits, copies and sums, and who judges or predicts a Plan reads it so:
//
//   * nobody goes on before all of a team, or of a whole of groups, have come: ranks tell each
//     other;
//   * then receivers copy from senders, and nobody goes on before what it sends has been copied;
//   * groups and collectives of a rank use one thing, its communicators, one after the other.
//
// A library may be more lenient; it never is stricter.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace braid {

/// Groups that exchange messages, directly or through others.
struct Whole {
  uint32_t number = 0;                               ///< among all of the job
  std::shared_ptr<const std::vector<int64_t>> ranks; ///< that have a group in it, in order
};
/// The whole that each group belongs to, by rank. Messages meet by their number. The Plans are
/// those of all ranks, or of the first ones where those stand for all (alike_ranks.h); `ranks` are
/// then of these.
std::vector<std::vector<Whole>> wholesOf(llvm::ArrayRef<Plan> plans);

/// Plans of all ranks with their groups and collectives spelled out: in front of each the commands
/// above, on its stream; the command itself stays, and stands for the use of the communicators,
/// which is a write to the last buffer, `communicators`. Any buffer may be read by a peer. What
/// reduces is spelled as a sum in the order of the team, whatever the operator, and though a
/// library adds in an order of its own. Endpoints that were there before stay as they are.
///
/// Ranks meet in rounds: in round k each tells the one 2^k places further on, counted around, and
/// waits for the one 2^k places back. After the last round each has heard of all, by way of others,
/// and nobody has gone on before: the same order as if each told all others, with far fewer
/// commands.
std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans);
/// The same without the meeting of all: only who receives waits for who sends, and the other way
/// round. A library may let a rank go on when its own messages are over, so no more than this
/// orders what ranks do to each other's memory. Also of the first ranks where those stand for all.
std::vector<Plan> spellOutData(llvm::ArrayRef<Plan> plans);

} // namespace braid
