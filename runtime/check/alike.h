//===- runtime/check/alike.h - ranks that wait for each other alike ---------------------------===//
//
// In most programs every rank does what rank 0 does, moved around the mesh: where rank 0 waits for
// rank 3, rank 5 waits for rank 8; or for rank 6, which is 5 xor 3 (runtime/plan/shift.h). So it
// suffices to follow the waits of rank 0; or, if ranks have hosts, those of the first host's ranks.
// Ranks 0 .. P-1 are the first block, and the mesh consists of N/P blocks; P is called the period.
// Below, b + d and b - d are blocks moved by d and back, by addition or by xor. The argument only
// uses that this is a group.
//
// This shows the order of events only. The bytes that commands touch, and the data in them, differ
// between ranks (a rank's own block lies elsewhere), so these are checked for each rank.
//
// The argument. Let (e, b) be the event in block b that corresponds to event e of the first block:
// the same command of the same stream in the same run. Ranks are alike if for all b: (e, b) comes
// after (f, b) on its stream if and only if (e, 0) comes after (f, 0); it waits for a record (f, b)
// if and only if (e, 0) waits for (f, 0); and it awaits the signal (f, b + d) if and only if (e, 0)
// awaits (f, d). findAlike() compares exactly that, rank by rank: streams and kinds of commands,
// records and waits, the ends of buffers, and the partner of each endpoint. So moving all events by
// a block changes no wait, for any N/P.
//
//   deadlock  Suppose the events of the first block have an order in which each event follows its
//             predecessors, those on its queue included, and follows e whenever it waits for
//             (e, d). Then all (e, b) can be executed, one e after the other: each waits only for
//             earlier ones. If there is no such order, a cycle leads from e to (e, d), and going
//             around it often enough leads back to e itself; so all ranks have none, either. The
//             safe number of queues is the same.
//   order     (e, b) is before (f, c) if and only if (e, b - c) is before (f, 0): a chain of waits,
//             moved by c, is a chain of waits. So the clock of (f, c) is the moved clock of (f, 0),
//             and the clocks of the first block suffice.
//   signals   For the same reason no signal comes early if none of the first block does.
//   races     A rank's memory is touched by its own commands, and by peers' commands through the
//             endpoints that meet its own. Both are in its Plan, except for the number of bytes
//             that a peer touches, which findAlike() has compared. So every rank's accesses are
//             visited, in the order above, and cells (cells.h) tell which pairs of events must be
//             ordered. Most pairs are equal for all ranks. Every pair is looked up in the clocks.
//   result    Every command of every rank is followed, in an order in which the history can run:
//             each block advances as far as the others let it (walk.h).
//
// Programs that this finds unsafe, and ranks that are not alike, are checked rank by rank, which
// produces the counterexample.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/transfers.h"

namespace braid::checker {

/// `period` ranks stand for all, shifted by whole blocks of so many.
struct Alike {
  uint32_t period;
  Shift shift = Shift::Add;
};

/// The smallest block of 1 rank and of the ranks of a host for which ranks are alike; else of all
/// ranks. Endpoints meet as `partners` says.
Alike findAlike(llvm::ArrayRef<Plan> plans, const Partners &partners);

} // namespace braid::checker
