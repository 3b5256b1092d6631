//===- runtime/check/cells.h - what was done last to the bytes of a rank ----------------------===//
//
// For every stretch of bytes, the last write and the reads since are enough: a write that is
// ordered after all of them is ordered, by transitivity, after everything before, and so is what
// comes later.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/access.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace braid::checker {

/// An event that touches memory. Its block is counted from that of the memory on.
struct Actor {
  EventId id = kNone;
  uint32_t block = 0;
  bool operator==(const Actor &) const = default;
};

/// The memories of one rank.
class RankCells {
public:
  explicit RankCells(const History &history) : history_(&history) {}

  /// Notes the access, and calls `expectOrder` for each actor that it has to come after.
  void access(Actor actor, const Access &access,
              llvm::function_ref<void(const Actor &earlier)> expectOrder);
  /// Notes that a buffer has ended in a run.
  void release(uint32_t buffer, uint32_t run, EventId id) { releases_[{buffer, run}] = id; }
  /// The end of a buffer in a run; kNone if it has not come yet.
  EventId endOf(uint32_t buffer, uint32_t run) const;

private:
  /// The last accesses to a stretch of bytes. All accesses so far had the whole stretch or nothing.
  struct Cell {
    int64_t end;
    Actor write = {};
    llvm::SmallVector<Actor, 1> reads = {}; ///< since then
  };
  /// The cells of one memory, by first byte. Grows by splitting.
  using Cells = std::map<int64_t, Cell>;

  static void split(Cells &cells, int64_t at);
  template <class Fn> static void forEachCell(Cells &cells, int64_t begin, int64_t end, Fn &&fn);

  const History *history_;
  PerMemory<Cells> cells_;
  std::map<std::pair<uint32_t, uint32_t>, EventId> releases_; ///< by buffer and run
};

/// Bytes that a command may not write, because it also reads them: it may write some before it
/// reads others. Commands other than GEMMs may write exactly the bytes that they read.
std::optional<Place> findOwnConflict(const Command &command, llvm::ArrayRef<Access> accesses);

} // namespace braid::checker
