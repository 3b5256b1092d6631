//===- runtime/check/cells.cpp - the last accesses to each byte of a rank ---------------------===//

#include "runtime/check/cells.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid::checker {

/// Splits the cell that contains `at`, if any, unless the cell begins there.
void RankCells::split(Cells &cells, int64_t at) {
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
template <class Fn> void RankCells::forEachCell(Cells &cells, int64_t begin, int64_t end, Fn &&fn) {
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

void RankCells::access(Actor actor, const Access &access,
                       llvm::function_ref<void(const Actor &)> expectOrder) {
  const Place &place = access.place;
  auto visit = [&](Cell &cell) {
    if (cell.write.id != kNone && cell.write != actor)
      expectOrder(cell.write);
    if (!access.isWrite)
      return cell.reads.push_back(actor);
    // A thread's last read suffices, because it follows the thread's other reads.
    llvm::SmallDenseSet<size_t, 16> threads;
    for (const Actor &read : llvm::reverse(cell.reads))
      if (threads.insert(history_->numberOf(history_->event(read.id), read.block)).second &&
          read != actor)
        expectOrder(read);
    cell.write = actor;
    cell.reads.clear();
  };
  forEachCell(cells_[place.memory], place.begin, place.end, visit);
}

EventId RankCells::endOf(uint32_t buffer, uint32_t run) const {
  auto found = releases_.find({buffer, run});
  return found == releases_.end() ? kNone : found->second;
}

std::optional<Place> findOwnConflict(const Command &command, llvm::ArrayRef<Access> accesses) {
  const bool mayUpdate = command.kind != CommandKind::Matmul;
  for (const Access &write : accesses)
    for (const Access &read : accesses) {
      const Place &from = read.place, &to = write.place;
      if (!write.isWrite || read.isWrite)
        continue;
      const std::optional<Place> both = common(to, from);
      if (both && (!mayUpdate || from.begin != to.begin || from.end != to.end))
        return both;
    }
  return std::nullopt;
}

} // namespace braid::checker
