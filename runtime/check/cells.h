//===- runtime/check/cells.h - the last accesses to each byte of a rank -----------------------===//
//
// For each range of bytes, it suffices to track the last write and the reads since then: by
// transitivity, an access ordered after these accesses is ordered after all earlier ones.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/access.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace braid::checker {

/// An event that accesses memory. `block` is relative to the block of the memory's rank.
struct Actor {
  EventId id = kNone;
  uint32_t block = 0;
  bool operator==(const Actor &) const = default;
};

/// Tracks the last accesses to the memories of one rank.
class RankCells {
public:
  explicit RankCells(const History &history) : history_(&history) {}

  /// Records the access, and calls `expectOrder` for each earlier access that must be ordered
  /// before it.
  void access(Actor actor, const Access &access,
              llvm::function_ref<void(const Actor &earlier)> expectOrder);
  void release(uint32_t buffer, uint32_t run, EventId id) { releases_[{buffer, run}] = id; }
  /// Returns the event that ends a buffer's lifetime in a run, or kNone if it has not been reached.
  EventId endOf(uint32_t buffer, uint32_t run) const;

private:
  /// The last accesses to a range of bytes. Every access so far covers the whole range or none of
  /// it.
  struct Cell {
    int64_t end;
    Actor write = {};
    llvm::SmallVector<Actor, 1> reads = {}; ///< reads since `write`
  };
  /// The cells of one memory, by first byte. Cells are split on demand.
  using Cells = std::map<int64_t, Cell>;

  static void split(Cells &cells, int64_t at);
  template <class Fn> static void forEachCell(Cells &cells, int64_t begin, int64_t end, Fn &&fn);

  const History *history_;
  std::map<Memory, Cells> cells_;
  std::map<std::pair<uint32_t, uint32_t>, EventId> releases_; ///< by buffer and run
};

/// Returns bytes, if any, that `command` may read after overwriting them. Commands other than GEMMs
/// may work in place, writing exactly the bytes that they read.
std::optional<Place> findOwnConflict(const Command &command, llvm::ArrayRef<Access> accesses);

} // namespace braid::checker
