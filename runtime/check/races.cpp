//===- runtime/check/races.cpp - finds conflicting unordered accesses -------------------------===//

#include "runtime/check/races.h"

#include "runtime/check/cells.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

/// An event that accesses the memory of a rank in the first block.
struct Touch {
  Actor actor;
  uint32_t endpoint = kNone; ///< the rank's endpoint for an access by a peer, else kNone
  int64_t bytes = 0;         ///< number of bytes that a peer accesses
  bool isWrite = false;      ///< true if a peer's access is a write
};

/// Reports a signal that is not ordered after the await for the previous signal to the same flag.
/// Without such signals, a flag that counts runs and a binary flag are equivalent: neither loses a
/// signal. `before` must have advanced to `id`.
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
                   "a transfer is signaled again before its previous signal has been awaited",
                   {history.describe(await), history.describe(id)},
                   {"the signal of one run is not ordered after the await of the previous run"}};
}

/// Visits the memory of each rank and collects the pairs of events that must be ordered. Then walks
/// the history once to check that these pairs are ordered.
class RaceFinder {
public:
  RaceFinder(const History &history, llvm::ArrayRef<EventId> order)
      : history_(history), order_(order), touches_(history.period()),
        questions_(history.events().size()) {
    for (EventId id : order)
      addTouches(id);
  }

  void visitMemoryOf(size_t rank) {
    RankCells cells(history_);
    for (const Touch &touch : touches_[rank % history_.period()])
      if (!(touch.endpoint == kNone ? visitOwn(cells, touch.actor.id, rank)
                                    : visitPeers(cells, touch, rank)))
        return;
  }

  std::optional<Violation> findUnordered(bool relyOnMeetings, const ProgressFn &progress) const {
    HappensBefore before(history_, relyOnMeetings);
    std::optional<Violation> earlySignal;
    ProgressStep step(progress, "finding races and early signals", "commands", order_.size());
    for (EventId id : order_) {
      step.advance();
      before.advance(id);
      if (const auto wrong = wrongUses_.find(id); wrong != wrongUses_.end())
        return wrong->second;
      for (const Actor &earlier : questions_[id])
        if (!before.isBeforePresent(earlier.id, earlier.block))
          return history_.blocks() == 1
                     ? describeRace(history_, earlier.id, id)
                     : Violation{
                           CheckRule::Race, "accesses by equivalent ranks are not ordered", {}, {}};
      if (!earlySignal)
        earlySignal = findEarlySignal(history_, before, id);
    }
    return earlySignal;
  }

  size_t accesses() const { return accesses_; }

private:
  /// Records the memory accesses of an event. An access to another block of ranks is recorded as
  /// that of the corresponding event whose access falls into the first block (see history.h).
  void addTouches(EventId id) {
    const Event &event = history_.event(id);
    if (event.kind != EventKind::Command)
      return touches_[event.rank].push_back({{id}});
    const Command &command = history_.command(event);
    const Operands operands = operandsOf(history_.plan(event), command);
    const auto ofPeers =
        llvm::count_if(operands, [](const Operand &each) { return each.isPeers(); });
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

  bool visitOwn(RankCells &cells, EventId id, size_t rank) {
    const Event event = history_.event(id, history_.blockOf(static_cast<int64_t>(rank)));
    const Accesses accesses = accessesOf(history_, event, /*withPeers=*/false);
    for (const Access &access : accesses)
      if (!visit(cells, {id}, access))
        return false;
    if (event.kind == EventKind::Release)
      cells.release(history_.plan(event).releases[event.index].buffer, event.run, id);
    return isClear(event, id, accesses);
  }

  bool visitPeers(RankCells &cells, const Touch &touch, size_t rank) {
    const Plan &plan = history_.plans()[rank];
    const Range &range = plan.endpoints[touch.endpoint].range;
    const Place place = placeOf(plan, {range.buffer, range.offset, touch.bytes});
    return visit(cells, touch.actor, {place, touch.isWrite});
  }

  /// A use belongs to the run of the accessing event. If the use is visited before the release, the
  /// release conflicts with it, because a release counts as a write; otherwise the use after
  /// release is detected here.
  bool visit(RankCells &cells, const Actor &actor, const Access &access) {
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
      const uint32_t block = history_.shiftBetweenBlocks(actor.block, earlier.block);
      if (history_.blocks() == 1 || asked_.insert({actor.id, earlier.id, block}).second)
        questions_[actor.id].push_back({earlier.id, block});
    });
    return true;
  }

  /// Returns false, and records a wrong use, if a command may read bytes after overwriting them.
  /// A command may work in place, writing exactly the bytes that it reads. A GEMM may do so only
  /// if no operand except its addend contains these bytes.
  bool isClear(const Event &event, EventId id, llvm::ArrayRef<Access> accesses) {
    if (event.kind != EventKind::Command)
      return true;
    const Command &command = history_.command(event);
    const bool isGemm = command.kind == CommandKind::Matmul;
    const bool addsInPlace = isGemm && history_.plan(event).matmuls[command.matmul].addsInPlace();
    for (const Access &write : accesses)
      for (const Access &read : accesses) {
        const Place &from = read.place, &to = write.place;
        if (!write.isWrite || read.isWrite)
          continue;
        const std::optional<Place> both = common(to, from);
        if (!both)
          continue;
        const auto readers = llvm::count_if(
            accesses, [&](const Access &each) { return !each.isWrite && common(each.place, to); });
        const bool mayUpdate = !isGemm || (addsInPlace && readers == 1);
        if (mayUpdate && from.begin == to.begin && from.end == to.end)
          continue;
        wrongUses_.try_emplace(id, Violation{CheckRule::Result,
                                             "a command reads bytes that it also writes",
                                             {history_.describe(event)},
                                             {"it reads and writes " + str(history_, *both)}});
        return false;
      }
    return true;
  }

  const History &history_;
  llvm::ArrayRef<EventId> order_;
  std::vector<std::vector<Touch>> touches_; ///< in order, by rank of the first block
  /// For each event of the first block, the events that must complete before it starts.
  std::vector<std::vector<Actor>> questions_;
  /// The pairs that `questions_` contains already. Alike ranks mostly require the same pairs to be
  /// ordered.
  llvm::DenseSet<std::tuple<EventId, EventId, uint32_t>> asked_;
  std::map<EventId, Violation> wrongUses_; ///< uses that are wrong in every order
  size_t accesses_ = 0;
};

} // namespace

std::optional<Violation> findRace(const History &history, llvm::ArrayRef<EventId> order,
                                  bool relyOnMeetings, size_t &accesses,
                                  const ProgressFn &progress) {
  RaceFinder finder(history, order);
  ProgressStep step(progress, "listing memory accesses", "ranks", history.plans().size());
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
