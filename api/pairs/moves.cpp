//===- api/pairs/moves.cpp - who sends to whom in a run ---------------------------------------===//

#include "api/pairs/moves.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

bool Moves::runs(int64_t from, int64_t to) const {
  if (from == to)
    return false;
  if (kind == Kind::Together)
    return !llvm::is_contained(without, std::pair(from, to));
  return (from == source && to == destination) ||
         (kind == Kind::ThereAndBack && from == destination && to == source);
}

/// Each begins with the next rank, so that not all begin with the same one.
std::vector<Moves::End> Moves::sendsOf(int64_t rank, int64_t ranks) const {
  std::vector<End> ends;
  for (int64_t shift = 1; shift < ranks; ++shift)
    if (const int64_t peer = (rank + shift) % ranks; runs(rank, peer))
      ends.push_back({peer, rowOf(peer)});
  return ends;
}

std::vector<Moves::End> Moves::receivesOf(int64_t rank, int64_t ranks) const {
  std::vector<End> ends;
  for (int64_t shift = 1; shift < ranks; ++shift)
    if (const int64_t peer = (rank + ranks - shift) % ranks; runs(peer, rank))
      ends.push_back({peer, rowOf(peer)});
  return ends;
}

} // namespace braid
