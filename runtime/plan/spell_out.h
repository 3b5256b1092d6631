//===- runtime/plan/spell_out.h - what messages promise, command by command -------------------===//
//
// A Plan that sends messages keeps groups and collectives whole. What they promise can be said with
// signals, awaits, copies and sums, and who judges or predicts a Plan reads it so:
//
//   * nobody goes on before all have come: ranks tell each other that they have come, and then that
//     all they wait for have come, so a group is over on no rank before its peers' groups have met
//     all theirs;
//   * then receivers copy from senders, and nobody goes on before what it sends has been copied;
//   * groups and collectives of a rank use one thing, its communicators, one after the other.
//
// A library may be more lenient; it never is stricter.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// The same Plan with its groups and collectives spelled out: in front of each the commands above,
/// on its stream; the command itself stays, and stands for the use of the communicators, which is
/// a write to the last buffer, `communicators`. Any buffer may be read by a peer. What reduces is
/// spelled as a sum in the order of the team, whatever the operator, and though a library adds in
/// an order of its own. Plans without messages are returned as they are.
Plan spellOut(Plan plan);

} // namespace braid
