//===- runtime/check/races.cpp - finds conflicting unordered accesses -------------------------===//

#include "runtime/check/races.h"

#include "runtime/check/cells.h"
#include "runtime/check/missing_order.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

/// For each event of the first block, the events that must complete before it starts. Alike ranks
/// mostly yield the same pairs, so duplicates are dropped.
class Questions {
public:
  explicit Questions(const History &history)
      : areAlike_(history.blocks() > 1), ofEvents_(history.events().size()) {}

  void ask(Actor earlier, EventId present) {
    if (!areAlike_ || asked_.insert({present, earlier.id, earlier.block}).second)
      ofEvents_[present].push_back(earlier);
  }

  llvm::ArrayRef<Actor> of(EventId present) const { return ofEvents_[present]; }

private:
  const bool areAlike_;
  std::vector<std::vector<Actor>> ofEvents_;
  llvm::DenseSet<std::tuple<EventId, EventId, uint32_t>> asked_;
};

/// An event that accesses the memory of a rank in the first block.
struct Touch {
  Actor actor;
  uint32_t endpoint = kNone; ///< the rank's endpoint for an access by a peer, else kNone
  int64_t bytes = 0;         ///< number of bytes that a peer accesses
  bool isWrite = false;      ///< true if a peer's access is a write
};

/// Visits the memory of each rank and collects the pairs of events that must be ordered. Then walks
/// the history once to check that these pairs are ordered.
class RaceFinder {
public:
  RaceFinder(const History &history, llvm::ArrayRef<EventId> order)
      : history_(history), order_(order), touches_(history.period()), questions_(history) {
    for (EventId id : order)
      addTouches(id);
  }

  void visitMemoryOf(size_t rank);
  std::optional<Violation> findUnordered(bool relyOnMeetings, const ProgressFn &progress) const;
  size_t accesses() const { return accesses_; }

private:
  void addTouches(EventId id);
  bool isClear(const Event &event, EventId id, llvm::ArrayRef<Access> accesses);
  bool visitOwn(RankCells &cells, EventId id, size_t rank);
  bool visitPeers(RankCells &cells, const Touch &touch, size_t rank);
  bool visit(RankCells &cells, const Actor &actor, const Access &access);
  std::optional<Violation> findUnordered(const HappensBefore &before, EventId id) const;

  const History &history_;
  llvm::ArrayRef<EventId> order_;
  std::vector<std::vector<Touch>> touches_; ///< in order, by rank of the first block
  Questions questions_;
  std::map<EventId, Violation> wrongUses_; ///< uses that are wrong in every order
  size_t accesses_ = 0;
};

/// If an event accesses memory of a rank in another block, its counterpart in one of the blocks
/// accesses memory of a rank in the first block.
void RaceFinder::addTouches(EventId id) {
  const Event &event = history_.event(id);
  if (event.kind != EventKind::Command)
    return touches_[event.rank].push_back({{id}});
  const Command &command = history_.command(event);
  const Operands operands = operandsOf(history_.plan(event), command);
  const auto ofPeers = llvm::count_if(operands, [](const Operand &each) { return each.isPeers(); });
  if (static_cast<size_t>(ofPeers) < operands.size())
    touches_[event.rank].push_back({{id}});
  if (ofPeers == 0 || (ofPeers > 1 && !isClear(event, id, accessesOf(history_, event))))
    return;
  const int64_t peer = history_.plan(event).endpoints[command.endpoint].peer;
  const Actor actor{id, history_.shiftBetweenBlocks(history_.blockOf(peer), 0)};
  for (const Operand &operand : operands)
    if (operand.isPeers())
      touches_[static_cast<size_t>(peer) % history_.period()].push_back(
          {actor, history_.partner(event.rank, command.endpoint), operand.range.bytes,
           operand.isWrite});
}

void RaceFinder::visitMemoryOf(size_t rank) {
  RankCells cells(history_);
  for (const Touch &touch : touches_[rank % history_.period()])
    if (!(touch.endpoint == kNone ? visitOwn(cells, touch.actor.id, rank)
                                  : visitPeers(cells, touch, rank)))
      return;
}

bool RaceFinder::isClear(const Event &event, EventId id, llvm::ArrayRef<Access> accesses) {
  if (event.kind != EventKind::Command)
    return true;
  const std::optional<Place> both = findOwnConflict(history_.command(event), accesses);
  if (both)
    wrongUses_.try_emplace(id, Violation{CheckRule::Result,
                                         "a command reads the bytes that it writes",
                                         {history_.describe(event)},
                                         {"it does so in " + str(history_, *both)}});
  return !both;
}

bool RaceFinder::visitOwn(RankCells &cells, EventId id, size_t rank) {
  const Event event = history_.event(id, history_.blockOf(static_cast<int64_t>(rank)));
  const Accesses accesses = accessesOf(history_, event, /*withPeers=*/false);
  for (const Access &access : accesses)
    if (!visit(cells, {id}, access))
      return false;
  if (event.kind == EventKind::Release)
    cells.release(history_.plan(event).releases[event.index].buffer, event.run, id);
  return isClear(event, id, accesses);
}

bool RaceFinder::visitPeers(RankCells &cells, const Touch &touch, size_t rank) {
  const Plan &plan = history_.plans()[rank];
  const Range &range = plan.endpoints[touch.endpoint].range;
  const Place place = placeOf(plan, {range.buffer, range.offset, touch.bytes});
  return visit(cells, touch.actor, {place, touch.isWrite});
}

/// A use belongs to the run of the accessing event. If the use is visited before the release, the
/// release conflicts with it, because a release counts as a write; otherwise the use after release
/// is detected here.
bool RaceFinder::visit(RankCells &cells, const Actor &actor, const Access &access) {
  ++accesses_;
  const Place &place = access.place;
  if (const EventId end = cells.endOf(place.buffer, history_.event(actor.id).run); end != kNone) {
    const PlanBuffer &buffer = history_.plans()[place.memory.rank].buffers[place.buffer];
    wrongUses_.try_emplace(
        actor.id, Violation{CheckRule::Lifetime,
                            fmt::format("%{} is used after it was deallocated", buffer.name),
                            {history_.describe(end), history_.describe(actor.id)},
                            {str(history_, place)}});
    return false;
  }
  cells.access(actor, access, [&](const Actor &earlier) {
    questions_.ask({earlier.id, history_.shiftBetweenBlocks(actor.block, earlier.block)}, actor.id);
  });
  return true;
}

//===- Orders ---------------------------------------------------------------------------------===//

/// Two accesses to the same bytes.
struct Conflict {
  Place bytes;
  bool firstWrites, secondWrites;

  /// Returns which event, 1 or 2, only reads, or 0 if both write.
  int reader() const { return firstWrites && secondWrites ? 0 : firstWrites ? 2 : 1; }
};

std::optional<Conflict> findConflict(const History &history, EventId first, EventId second) {
  const Accesses earlier = accessesOf(history, history.event(first));
  for (const Access &b : accessesOf(history, history.event(second)))
    for (const Access &a : llvm::reverse(earlier)) // writes first
      if (const std::optional<Place> bytes = common(a.place, b.place);
          bytes && (a.isWrite || b.isWrite))
        return Conflict{*bytes, a.isWrite, b.isWrite};
  return std::nullopt;
}

/// Describes, for either order, the data that a read returns or that two writes leave behind.
/// `first` is the event, 1 or 2, that is intended to run first.
void sayOrders(Violation &race, int reader, int first) {
  const int second = 3 - first;
  race.staleIfFirst = static_cast<size_t>(second) - 1;
  if (reader == 0) {
    race.stale =
        fmt::format("the data of {} remains and that of {} is lost: stale data", first, second);
    race.otherwise = fmt::format("the data of {} remains and that of {} is lost", second, first);
    return;
  }
  const int writer = 3 - reader;
  const bool isRunBefore = race.events[0].run != race.events[1].run;
  const std::string before = fmt::format("{} reads the data from before {} writes", reader, writer);
  const std::string after = fmt::format("{} reads the data that {} has written", reader, writer);
  race.stale = reader == second ? before + ": stale data"
                                : after + (isRunBefore ? ": data of a later run"
                                                       : ", instead of the earlier data");
  race.otherwise = reader == second ? after : before;
}

/// Describes both orders of a use and of `end`, the event (1 or 2) that ends the buffer's lifetime.
void sayOrdersOfEnd(Violation &use, int end) {
  use.rule = CheckRule::Lifetime;
  use.summary = "a use of memory and the deallocation of a buffer there are not ordered";
  use.staleIfFirst = static_cast<size_t>(end) - 1;
  use.stale = fmt::format("{} uses memory that may belong to another buffer", 3 - end);
  use.otherwise = fmt::format("{} uses its buffer before the deallocation", 3 - end);
}

/// Guesses which event is intended to run first if no signal determines it: the event of the
/// earlier run, else the writer, else the event that was visited first.
int meantFirst(const Violation &race, int reader) {
  const uint32_t first = race.events[0].run, second = race.events[1].run;
  if (first != second)
    return first < second ? 1 : 2;
  return reader == 0 ? 1 : 3 - reader;
}

Violation describe(const History &history, const Conflict &conflict, EventId a, EventId b) {
  const int reader = conflict.reader();
  const char *what = reader == 0   ? "two writes"
                     : reader == 2 ? "a write and a read"
                                   : "a read and a write";
  Violation race{CheckRule::Race,
                 fmt::format("{} that are not ordered", what),
                 {history.describe(a), history.describe(b)},
                 {"both touch " + str(history, conflict.bytes)}};
  const auto missing = findMissingOrder(history, a, b, conflict.bytes.memory.rank);
  if (missing)
    race.notes.push_back("missing: " + missing->wait);
  sayOrders(race, reader, missing ? (missing->isSwapped ? 2 : 1) : meantFirst(race, reader));
  for (EventId id : {a, b})
    if (history.event(id).kind == EventKind::Release)
      sayOrdersOfEnd(race, id == a ? 1 : 2);
  return race;
}

/// Every signal to a flag except the first must happen after the await of the previous signal. A
/// flag that counts runs and a binary flag are then equivalent: neither loses a signal. `before`
/// must have advanced to `id`.
std::optional<Violation> findEarlySignal(const History &history, const HappensBefore &before,
                                         EventId id) {
  const Event &event = history.event(id);
  if (event.kind != EventKind::Command || event.run == 0 ||
      history.command(event).kind != CommandKind::Signal)
    return std::nullopt;
  const uint32_t number = history.command(event).endpoint;
  const Endpoint &endpoint = history.plan(event).endpoints[number];
  if (endpoint.isOfMessages) // messages have no flag
    return std::nullopt;
  const EventId await = history.awaitOf(static_cast<size_t>(endpoint.peer),
                                        history.partner(event.rank, number), event.run - 1);
  if (await == kNone || before.isBeforePresent(await, history.blockOf(endpoint.peer)))
    return std::nullopt;
  return Violation{CheckRule::Transfers,
                   "a transfer is signalled again before it was awaited",
                   {history.describe(await), history.describe(id)},
                   {"the signal of a run is not ordered after the await of the previous run"}};
}

/// `before` must have advanced to `id`.
std::optional<Violation> RaceFinder::findUnordered(const HappensBefore &before, EventId id) const {
  if (const auto wrong = wrongUses_.find(id); wrong != wrongUses_.end())
    return wrong->second;
  for (const Actor &earlier : questions_.of(id)) {
    if (before.isBeforePresent(earlier.id, earlier.block))
      continue;
    const auto conflict =
        history_.blocks() == 1 ? findConflict(history_, earlier.id, id) : std::nullopt;
    return conflict
               ? describe(history_, *conflict, earlier.id, id)
               : Violation{CheckRule::Race, "accesses of equivalent ranks are not ordered", {}, {}};
  }
  return std::nullopt;
}

std::optional<Violation> RaceFinder::findUnordered(bool relyOnMeetings,
                                                   const ProgressFn &progress) const {
  HappensBefore before(history_, relyOnMeetings);
  std::optional<Violation> earlySignal;
  ProgressStep step(progress, "races and early signals", "commands", order_.size());
  for (EventId id : order_) {
    step.advance();
    before.advance(id);
    if (std::optional<Violation> unordered = findUnordered(before, id))
      return unordered;
    if (!earlySignal)
      earlySignal = findEarlySignal(history_, before, id);
  }
  return earlySignal;
}

} // namespace

std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress) {
  RaceFinder finder(history, order);
  ProgressStep step(progress, "accesses to memory", "ranks", history.plans().size());
  for (size_t rank = 0; rank < history.plans().size(); ++rank) {
    step.advance();
    finder.visitMemoryOf(rank);
  }
  accesses = finder.accesses();
  // Ignoring meetings yields more races; races that only meetings prevent are reported last.
  std::optional<Violation> race;
  if (relyOnMeetings || history.blocks() == 1)
    race = finder.findUnordered(true, progress);
  return race || relyOnMeetings ? race : finder.findUnordered(false, progress);
}

} // namespace braid::checker
