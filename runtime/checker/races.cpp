//===- runtime/checker/races.cpp - conflicting accesses that nothing orders -------------------===//
//
// For every stretch of bytes, the last write and the reads since are enough: a write that is
// ordered after all of them is ordered, by transitivity, after everything before, and so is what
// comes later.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/checker/races.h"

#include "runtime/checker/access.h"

#include <fmt/format.h>

#include <map>

namespace braid::checker {
namespace {

/// What was done last to a stretch of bytes that has always been accessed alike.
struct Cell {
  int64_t end;
  EventId write = kNone;
  std::vector<EventId> reads; ///< since the write; at most one of a thread, its last
};

/// The cells of one memory, by first byte. Grows by splitting.
using Cells = std::map<int64_t, Cell>;

/// Makes `at` the start of a cell if it lies inside one.
void split(Cells &cells, int64_t at) {
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

/// Makes cells that cover [begin, end) exactly, and calls `fn` for each.
template <class Fn> bool forEachCell(Cells &cells, int64_t begin, int64_t end, Fn &&fn) {
  split(cells, begin);
  split(cells, end);
  for (int64_t at = begin; at < end;) {
    auto next = cells.lower_bound(at);
    if (next == cells.end() || next->first > at) {
      int64_t gapEnd = next == cells.end() ? end : std::min(end, next->first);
      next = cells.emplace(at, Cell{gapEnd, kNone, {}}).first;
    }
    if (!fn(at, next->second))
      return false;
    at = next->second.end;
  }
  return true;
}

class RaceFinder {
public:
  explicit RaceFinder(const History &history) : history_(history), before_(history) {}

  bool visit(EventId id) {
    before_.advance(id);
    const std::vector<Access> accesses = accessesOf(history_, id);
    if (!checkSelf(id, accesses))
      return false;
    for (const Access &access : accesses) {
      ++count_;
      if (!checkLifetime(id, access) || !checkOrder(id, access))
        return false;
    }
    noteRelease(id);
    return true;
  }

  size_t count() const { return count_; }
  std::optional<Violation> take() { return std::move(violation_); }

private:
  void noteRelease(EventId id) {
    const Event &event = history_.event(id);
    if (event.kind == EventKind::Release)
      releases_[{event.rank, history_.plan(event).releases[event.index].buffer, event.run}] = id;
  }

  /// A use belongs to the run of the rank that makes it. One that the release may come before is a
  /// conflict, if it is seen first, because the release counts as a write; and else found here.
  bool checkLifetime(EventId id, const Access &access) {
    auto release =
        releases_.find({access.place.memory.rank, access.place.buffer, history_.event(id).run});
    if (release == releases_.end())
      return true;
    violation_ = Violation{
        CheckRule::Lifetime,
        fmt::format("%{} is used after its end",
                    history_.plans()[access.place.memory.rank].buffers[access.place.buffer].name),
        {history_.describe(release->second), history_.describe(id)},
        {str(history_, access.place)}};
    return false;
  }

  /// Within a command, too, nothing orders what it reads before what it writes; except that a sum
  /// may stand where one of its terms stood.
  bool checkSelf(EventId id, llvm::ArrayRef<Access> accesses) {
    const Event &event = history_.event(id);
    const bool isSum =
        event.kind == EventKind::Command && history_.command(event).kind == CommandKind::Add;
    for (const Access &write : accesses)
      for (const Access &read : accesses) {
        const Place &a = write.place, &b = read.place;
        bool overlap = a.memory == b.memory && a.begin < b.end && b.begin < a.end;
        bool isInPlace = isSum && a.begin == b.begin && a.end == b.end;
        if (!write.isWrite || read.isWrite || !overlap || isInPlace)
          continue;
        violation_ = Violation{CheckRule::Race,
                               "a command writes where it reads",
                               {history_.describe(id)},
                               {"it writes " + str(history_, a), "it reads " + str(history_, b)}};
        return false;
      }
    return true;
  }

  bool checkOrder(EventId id, const Access &access) {
    const Place &place = access.place;
    return forEachCell(cells_[place.memory], place.begin, place.end, [&](int64_t at, Cell &cell) {
      if (cell.write != kNone && !isOrdered(cell.write, id))
        return conflict(cell.write, id, place, at, cell.end, true, access.isWrite);
      if (!access.isWrite) {
        noteRead(cell, id);
        return true;
      }
      for (EventId read : cell.reads)
        if (!isOrdered(read, id))
          return conflict(read, id, place, at, cell.end, false, true);
      cell.write = id;
      cell.reads.clear();
      return true;
    });
  }

  /// `b` is the present event.
  bool isOrdered(EventId a, EventId b) const { return a == b || before_.isBeforePresent(a); }

  void noteRead(Cell &cell, EventId id) {
    for (EventId &read : cell.reads)
      if (history_.event(read).thread == history_.event(id).thread) {
        read = id;
        return;
      }
    cell.reads.push_back(id);
  }

  bool conflict(EventId a, EventId b, const Place &place, int64_t begin, int64_t end,
                bool firstWrites, bool secondWrites) {
    Place bytes{place.memory, place.buffer, begin, end};
    const char *what = firstWrites && secondWrites ? "two writes"
                       : firstWrites               ? "a write and a read"
                                                   : "a read and a write";
    violation_ = Violation{CheckRule::Race,
                           fmt::format("{} that nothing orders", what),
                           {history_.describe(a), history_.describe(b)},
                           {"both touch " + str(history_, bytes)}};
    return false;
  }

  const History &history_;
  HappensBefore before_;
  std::map<Memory, Cells> cells_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, EventId> releases_; // rank, buffer, run
  size_t count_ = 0;
  std::optional<Violation> violation_;
};

} // namespace

std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  size_t &accesses) {
  RaceFinder finder(history);
  for (EventId id : order)
    if (!finder.visit(id))
      break;
  accesses = finder.count();
  return finder.take();
}

} // namespace braid::checker
