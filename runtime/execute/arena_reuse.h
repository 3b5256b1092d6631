//===- runtime/execute/arena_reuse.h - which arenas may be handed out again -------------------===//
//
// What peers have mapped is not freed when its program is gone: it is kept, with its handle, for a
// later program, so that offers and mappings do not grow with the number of programs.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid {

enum class ArenaUse : uint8_t {
  Used,
  Released, ///< by its program; a peer may not be done with it
  Free,     ///< nobody has anything to do with it
};

/// True if an arena may stand in for a smaller one: a large one must not be gone when its like is
/// wanted, and what is wasted stays in proportion. Among small ones that does not matter.
inline bool servesFor(size_t held, size_t wanted) {
  constexpr size_t kSmall = size_t(64) << 10;
  return held >= wanted && held <= std::max(2 * wanted, kSmall);
}

/// The smallest free one of `arenas` that serves for `bytes`, of those that `isSuitable`; null:
/// there is none. An Arena has `bytes` and `use`.
template <class Arena, class Predicate>
Arena *findFree(std::vector<Arena> &arenas, size_t bytes, Predicate isSuitable) {
  Arena *best = nullptr;
  for (Arena &arena : arenas)
    if (arena.use == ArenaUse::Free && isSuitable(arena) && servesFor(arena.bytes, bytes) &&
        (!best || arena.bytes < best->bytes))
      best = &arena;
  return best;
}

} // namespace braid
