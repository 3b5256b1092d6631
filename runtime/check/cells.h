//===- runtime/check/cells.h - tracks the last accesses to each byte of a rank ----------------===//
//
// For each range of bytes, it suffices to track the last write and the reads since then: by
// transitivity, an access ordered after these accesses is ordered after all earlier accesses.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/access.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
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
  explicit RankCells(const History &history) : history_(history) {}

  /// Records the access, and calls `expectOrder` for each earlier access that must be ordered
  /// before it.
  void access(Actor actor, const Access &access,
              llvm::function_ref<void(const Actor &earlier)> expectOrder) {
    const Place &place = access.place;
    auto visit = [&](Cell &cell) {
      if (cell.write.id != kNone && cell.write != actor)
        expectOrder(cell.write);
      if (!access.isWrite)
        return cell.reads.push_back(actor);
      // A thread's last read suffices, because it follows the thread's other reads.
      llvm::SmallDenseSet<size_t, 16> threads;
      for (const Actor &read : llvm::reverse(cell.reads))
        if (threads.insert(history_.numberOf(history_.event(read.id), read.block)).second &&
            read != actor)
          expectOrder(read);
      cell.write = actor;
      cell.reads.clear();
    };
    forEachCell(cells_[place.memory], place.begin, place.end, visit);
  }

  void release(uint32_t buffer, uint32_t run, EventId id) { releases_[{buffer, run}] = id; }
  /// Returns the event that ended a buffer's lifetime in a run, or kNone if the buffer is live.
  EventId endOf(uint32_t buffer, uint32_t run) const {
    auto found = releases_.find({buffer, run});
    return found == releases_.end() ? kNone : found->second;
  }

private:
  /// The last accesses to a range of bytes. Every access so far has covered the whole range or none
  /// of it.
  struct Cell {
    int64_t end;
    Actor write = {};
    llvm::SmallVector<Actor, 1> reads = {}; ///< reads since `write`
  };
  /// The cells of one memory, by first byte. Cells are split on demand.
  using Cells = std::map<int64_t, Cell>;

  /// Splits the cell that contains `at`, if any, unless the cell begins there.
  static void split(Cells &cells, int64_t at) {
    auto next = cells.upper_bound(at);
    if (next == cells.begin())
      return;
    auto cell = std::prev(next);
    if (cell->first == at || cell->second.end <= at)
      return;
    Cell rest = cell->second;
    cell->second.end = at;
    cells.emplace(at, std::move(rest));
  }

  /// Splits and adds cells to cover [begin, end) exactly, and calls `fn` for each of these cells.
  template <class Fn> static void forEachCell(Cells &cells, int64_t begin, int64_t end, Fn &&fn) {
    if (auto same = cells.find(begin); same != cells.end() && same->second.end == end)
      return fn(same->second); // the most common case
    split(cells, begin);
    split(cells, end);
    auto next = cells.lower_bound(begin);
    for (int64_t at = begin; at < end; at = next++->second.end) {
      if (next == cells.end() || next->first > at) {
        int64_t gapEnd = next == cells.end() ? end : std::min(end, next->first);
        next = cells.emplace_hint(next, at, Cell{gapEnd});
      }
      fn(next->second);
    }
  }

  const History &history_;
  std::map<Memory, Cells> cells_;
  std::map<std::pair<uint32_t, uint32_t>, EventId> releases_; ///< by buffer and run
};

} // namespace braid::checker
