//===- runtime/check/races.cpp - conflicting accesses that nothing orders ---------------------===//
//
// For every stretch of bytes, the last write and the reads since are enough: a write that is
// ordered after all of them is ordered, by transitivity, after everything before, and so is what
// comes later.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/check/races.h"

#include "runtime/check/access.h"
#include "runtime/check/flags.h"

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
  if (auto same = cells.find(begin); same != cells.end() && same->second.end == end)
    return fn(begin, same->second); // as it mostly is
  split(cells, begin);
  split(cells, end);
  auto next = cells.lower_bound(begin);
  for (int64_t at = begin; at < end; at = next++->second.end) {
    if (next == cells.end() || next->first > at) {
      int64_t gapEnd = next == cells.end() ? end : std::min(end, next->first);
      next = cells.emplace_hint(next, at, Cell{gapEnd, kNone, {}});
    }
    if (!fn(at, next->second))
      return false;
  }
  return true;
}

class RaceFinder {
public:
  RaceFinder(const History &history, const HappensBefore &before)
      : history_(history), before_(before), cells_(history.plans().size()) {}

  /// `before` stands at `id`.
  bool visit(EventId id) {
    Accesses accesses = accessesOf(history_, id);
    count_ += accesses.size();
    for (const Access &access : accesses)
      if (!checkLifetime(id, access) || !checkItself(id, accesses, access) ||
          !checkOrder(id, access))
        return false;
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
    if (releases_.empty())
      return true;
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

  /// No command says in which order it reads and writes, so its operands do not overlap. What `Add`
  /// adds to is one operand, and a copy onto itself changes nothing.
  bool checkItself(EventId id, llvm::ArrayRef<Access> accesses, const Access &write) {
    if (!write.isWrite || history_.event(id).kind != EventKind::Command)
      return true;
    const Place &to = write.place;
    bool mayUpdate = history_.command(history_.event(id)).kind != CommandKind::Matmul;
    for (const Access &read : accesses) {
      const Place &from = read.place;
      if (read.isWrite || from.memory != to.memory || from.begin >= to.end || to.begin >= from.end)
        continue;
      if (mayUpdate && from.begin == to.begin && from.end == to.end)
        continue;
      Place both{to.memory, to.buffer, std::max(from.begin, to.begin), std::min(from.end, to.end)};
      violation_ = Violation{CheckRule::Result,
                             "a command reads the bytes that it writes",
                             {history_.describe(id)},
                             {"it does so in " + str(history_, both)}};
      return false;
    }
    return true;
  }

  /// A rank has few memories.
  Cells &cellsOf(const Memory &memory) {
    std::vector<std::pair<Memory, Cells>> &ofRank = cells_[memory.rank];
    for (auto &[known, cells] : ofRank)
      if (known == memory)
        return cells;
    return ofRank.emplace_back(memory, Cells()).second;
  }

  bool checkOrder(EventId id, const Access &access) {
    const Place &place = access.place;
    return forEachCell(cellsOf(place.memory), place.begin, place.end, [&](int64_t at, Cell &cell) {
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

  /// What a read gets, or what stays of two writes, in either order. `reader`: 1 or 2; 0: none.
  static void sayOrders(Violation &race, int reader) {
    if (reader == 0) {
      race.staleIfFirst = 1;
      race.stale = "what 1 writes stays, and what 2 has written is lost: stale data in its place";
      race.otherwise = "what 2 writes stays, and what 1 has written is lost";
      return;
    }
    const int writer = 3 - reader;
    race.staleIfFirst = static_cast<size_t>(reader) - 1;
    race.stale =
        fmt::format("{} reads what was there before {} writes: stale data", reader, writer);
    race.otherwise = fmt::format("{} reads what {} has written", reader, writer);
  }

  /// `end`: 1 or 2, the end of a buffer.
  static void sayOrdersOfEnd(Violation &use, int end) {
    use.staleIfFirst = static_cast<size_t>(end) - 1;
    use.stale = fmt::format("{} uses memory that may be another buffer's", 3 - end);
    use.otherwise = fmt::format("{} uses its buffer before that ends", 3 - end);
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
    sayOrders(*violation_, firstWrites && secondWrites ? 0 : firstWrites ? 2 : 1);
    for (EventId id : {a, b})
      if (history_.event(id).kind == EventKind::Release) {
        violation_->rule = CheckRule::Lifetime;
        violation_->summary = "nothing orders a use of memory and the end of a buffer there";
        sayOrdersOfEnd(*violation_, id == a ? 1 : 2);
      }
    return false;
  }

  const History &history_;
  const HappensBefore &before_;
  std::vector<std::vector<std::pair<Memory, Cells>>> cells_;             ///< by rank
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, EventId> releases_; // rank, buffer, run
  size_t count_ = 0;
  std::optional<Violation> violation_;
};

} // namespace

std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  size_t &accesses, const ProgressFn &progress) {
  HappensBefore before(history);
  RaceFinder finder(history, before);
  std::optional<Violation> earlySignal;
  ProgressStep step(progress, "races and early signals", "commands", order.size());
  for (EventId id : order) {
    step.advance();
    before.advance(id);
    if (!finder.visit(id))
      break;
    if (!earlySignal)
      earlySignal = findEarlySignal(history, before, id);
  }
  accesses = finder.count();
  std::optional<Violation> race = finder.take();
  return race ? race : earlySignal;
}

} // namespace braid::checker
