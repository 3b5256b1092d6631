//===- runtime/check/races.cpp - conflicting accesses that nothing orders ---------------------===//

#include "runtime/check/races.h"

#include "runtime/check/cells.h"
#include "runtime/check/flags.h"
#include "runtime/check/missing_order.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

class RaceFinder {
public:
  RaceFinder(const History &history, const HappensBefore &before)
      : history_(history), before_(before), cells_(history.plans().size(), RankCells(history)) {}

  /// `before` stands at `id`.
  bool visit(EventId id) {
    const Event &event = history_.event(id);
    const Accesses accesses = accessesOf(history_, event);
    count_ += accesses.size();
    for (const Access &access : accesses)
      if (!checkLifetime(id, access) || !checkItself(id, accesses, access) ||
          !checkOrder(id, access))
        return false;
    if (event.kind == EventKind::Release)
      cells_[event.rank].release(history_.plan(event).releases[event.index].buffer, event.run, id);
    return true;
  }

  size_t count() const { return count_; }
  std::optional<Violation> take() { return std::move(violation_); }

private:
  /// A use belongs to the run of the rank that makes it. One that the release may come before is a
  /// conflict, if it is seen first, because the release counts as a write; and else found here.
  bool checkLifetime(EventId id, const Access &access) {
    const Place &place = access.place;
    const EventId end = cells_[place.memory.rank].endOf(place.buffer, history_.event(id).run);
    if (end == kNone)
      return true;
    violation_ =
        Violation{CheckRule::Lifetime,
                  fmt::format("%{} is used after its end",
                              history_.plans()[place.memory.rank].buffers[place.buffer].name),
                  {history_.describe(end), history_.describe(id)},
                  {str(history_, place)}};
    return false;
  }

  bool checkItself(EventId id, llvm::ArrayRef<Access> accesses, const Access &write) {
    if (!write.isWrite || history_.event(id).kind != EventKind::Command)
      return true;
    const std::optional<Place> both =
        findOwnConflict(history_.command(history_.event(id)), accesses);
    if (!both)
      return true;
    violation_ = Violation{CheckRule::Result,
                           "a command reads the bytes that it writes",
                           {history_.describe(id)},
                           {"it does so in " + str(history_, *both)}};
    return false;
  }

  bool checkOrder(EventId id, const Access &access) {
    const Place &place = access.place;
    return cells_[place.memory.rank].access({id}, access, [&](const Earlier &earlier) {
      return before_.isBeforePresent(earlier.actor.id) ||
             conflict(earlier.actor.id, id, place, earlier.begin, earlier.end, earlier.isWrite,
                      access.isWrite);
    });
  }

  /// Describes the data that a read gets, or that two writes leave, in either order. `reader`: 1,
  /// 2, or 0 for none. `first`: the event, 1 or 2, that is meant to come first.
  static void sayOrders(Violation &race, int reader, int first) {
    const int second = 3 - first;
    race.staleIfFirst = static_cast<size_t>(second) - 1;
    if (reader == 0) {
      race.stale = fmt::format("what {} writes stays, and what {} has written is lost: stale data "
                               "in its place",
                               first, second);
      race.otherwise =
          fmt::format("what {} writes stays, and what {} has written is lost", second, first);
      return;
    }
    const int writer = 3 - reader;
    const bool isRunBefore = race.events[0].run != race.events[1].run;
    const std::string before =
        fmt::format("{} reads what was there before {} writes", reader, writer);
    const std::string after = fmt::format("{} reads what {} has written", reader, writer);
    race.stale = reader == second ? before + ": stale data"
                                  : after + (isRunBefore ? ": data of a later run"
                                                         : ", and not what was there before");
    race.otherwise = reader == second ? after : before;
  }

  /// `end`: 1 or 2, the end of a buffer.
  static void sayOrdersOfEnd(Violation &use, int end) {
    use.staleIfFirst = static_cast<size_t>(end) - 1;
    use.stale = fmt::format("{} uses memory that may be another buffer's", 3 - end);
    use.otherwise = fmt::format("{} uses its buffer before that ends", 3 - end);
  }

  /// If nothing says it: the earlier run, the writer, or the first that was followed.
  int meantFirst(EventId a, EventId b, int reader) const {
    const uint32_t runs[] = {history_.event(a).run, history_.event(b).run};
    if (runs[0] != runs[1])
      return runs[0] < runs[1] ? 1 : 2;
    return reader == 0 ? 1 : 3 - reader;
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
    const int reader = firstWrites && secondWrites ? 0 : firstWrites ? 2 : 1;
    const std::optional<MissingOrder> missing = findMissingOrder(history_, a, b, place.memory.rank);
    if (missing)
      violation_->notes.push_back("missing: " + missing->wait);
    sayOrders(*violation_, reader,
              missing ? (missing->isSwapped ? 2 : 1) : meantFirst(a, b, reader));
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
  std::vector<RankCells> cells_; ///< by rank
  size_t count_ = 0;
  std::optional<Violation> violation_;
};

} // namespace

std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress) {
  HappensBefore before(history, relyOnMeetings);
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
