//===- runtime/check/alike.h - ranks that wait for each other alike ---------------------------===//
//
// In most programs every rank does what rank 0 does, moved around the mesh: where rank 0 waits for
// rank 3, rank 5 waits for rank 8; or for rank 6, which is 5 xor 3 (runtime/plan/shift.h). So who
// waits for whom has to be followed for rank 0 alone; or, where ranks have hosts, for those of the
// first host, moved from host to host. Ranks 0 .. P-1 are then the first block, N/P blocks make the
// mesh, and the period P is what ranks are moved by. Below, b + d and b - d are blocks moved by d
// and back, by addition or by xor: all that is used of them is that they are those of a group.
//
// Only order is followed so. Which bytes commands touch, and what these hold, differs between ranks
// (a rank's own block lies elsewhere), and is looked at for each rank.
//
// The argument. Let (e, b) be event e of the first block in block b; it stands for the same command
// of the same stream in the same run. Ranks are alike if for all b: (e, b) stands behind (f, b) on
// its stream just if (e, 0) stands behind (f, 0); it waits for a record (f, b) just if (e, 0) waits
// for (f, 0); and it awaits the signal (f, b + d) just if (e, 0) awaits (f, d). findAlike()
// compares exactly that, rank by rank: streams and kinds of commands, what
// they record and wait for, where buffers end, and for each endpoint whom it meets. So moving all
// events by a block changes nothing about who waits for whom, whatever N/P is.
//
//   deadlock  Let the events of the first block be done in an order in which each comes after those
//             that stand before it, on its queue too, and after e whenever it waits for (e, d).
//             Then all (e, b) can be done, for one e after the other: each waits only for what came
//             before. If there is no such order, a cycle leads from e back to (e, d), and going
//             around it often enough back to e itself; so there is none for all ranks, either. The
//             number of queues that is safe is the same.
//   order     (e, b) is before (f, c) just if (e, b - c) is before (f, 0): moved by c, a chain of
//             waits is a chain of waits. So the clock of (f, c) is that of (f, 0), moved, and the
//             clocks of the first block are enough.
//   signals   For the same reason no signal comes early if none of the first block does.
//   races     A rank's memory is touched by its own commands, and by those of peers whose endpoints
//             meet its own. Both are in its Plan, but for how many bytes a peer touches, which
//             findAlike() has compared. So every rank's accesses are visited, in the order above,
//             and cells (cells.h) say which event has to be before which. The pairs are mostly the
//             same for all ranks. All pairs that any rank asks for are looked up in the clocks.
//   result    Every command of every rank is followed, in an order in which the history can run:
//             each block goes on as far as the others let it (walk.h).
//
// What is not safe so is followed rank by rank, which tells why; what is not alike, too.
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
