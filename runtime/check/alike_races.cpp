//===- runtime/check/alike_races.cpp - races of ranks that wait for each other alike ----------===//

#include "runtime/check/alike_races.h"

#include "runtime/check/cells.h"
#include "runtime/check/flags.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace braid::checker {
namespace {

/// An event that touches the memory of a rank of the first block.
struct Touch {
  Actor actor;
  uint32_t endpoint = kNone; ///< that rank's endpoint, if a peer's command accesses it; else kNone
  int64_t bytes = 0;         ///< that a peer touches
  bool isWrite = false;      ///< a peer's access is a write
};

/// Which events have to be done before an event of the first block starts. Ranks mostly ask for the
/// same ones, in the same order.
class Questions {
public:
  explicit Questions(size_t events) : ofEvents_(events) {}

  void ask(Actor earlier, EventId present) {
    OfEvent &asked = ofEvents_[present];
    if (asked.next == asked.list.size())
      asked.next = 0;
    if (asked.next < asked.list.size() && asked.list[asked.next] == earlier) {
      ++asked.next;
      return;
    }
    const auto [known, isNew] =
        places_.try_emplace({present, earlier.id, earlier.block}, asked.list.size());
    if (isNew)
      asked.list.push_back(earlier);
    asked.next = known->second + 1;
  }

  llvm::ArrayRef<Actor> of(EventId present) const { return ofEvents_[present].list; }

private:
  struct OfEvent {
    std::vector<Actor> list;
    size_t next = 0; ///< that is expected to be asked for
  };
  std::vector<OfEvent> ofEvents_;
  llvm::DenseMap<std::tuple<EventId, EventId, uint32_t>, size_t> places_; ///< in an event's list
};

class Finder {
public:
  Finder(const History &history, llvm::ArrayRef<EventId> order)
      : history_(history), order_(order), touches_(history.period()),
        questions_(history.events().size()) {
    for (EventId id : order)
      addTouches(id);
  }

  /// Visits what touches a rank's memory; false: it is touched as it may not be, in any order.
  bool visitMemoryOf(size_t rank) {
    RankCells cells(history_);
    return llvm::all_of(touches_[rank % history_.period()], [&](const Touch &touch) {
      return touch.endpoint == kNone ? visitOwn(cells, touch, rank)
                                     : visitPeers(cells, touch, rank);
    });
  }

  bool areOrdered(bool relyOnMeetings, const ProgressFn &progress) const {
    HappensBefore before(history_, relyOnMeetings);
    ProgressStep step(progress, "races and early signals", "commands", order_.size());
    for (EventId id : order_) {
      step.advance();
      before.advance(id);
      if (findEarlySignal(history_, before, id))
        return false;
      for (const Actor &earlier : questions_.of(id))
        if (!before.isBeforePresent(earlier.id, earlier.block))
          return false;
    }
    return true;
  }

  size_t accesses() const { return accesses_; }

private:
  void addTouches(EventId id) {
    const Event &event = history_.event(id);
    if (event.kind != EventKind::Command)
      return touches_[event.rank].push_back({{id}});
    const Command &command = history_.command(event);
    const Operands operands = operandsOf(history_.plan(event), command);
    auto isPeers = [](const Operand &operand) { return operand.range.buffer == kPeerBuffer; };
    if (!llvm::all_of(operands, isPeers))
      touches_[event.rank].push_back({{id}});
    for (const Operand &operand : llvm::make_filter_range(operands, isPeers))
      addPeers(id, command.endpoint, operand);
  }

  /// Adds the accesses of an event that touches the memory of a rank of another block. The same
  /// event of the block from which that shift leads to the first touches a rank of the first block.
  void addPeers(EventId id, uint32_t endpoint, const Operand &operand) {
    const Event &event = history_.event(id);
    const int64_t peer = history_.plan(event).endpoints[endpoint].peer;
    const uint32_t back = history_.shiftBetweenBlocks(history_.blockOf(peer), 0);
    touches_[static_cast<size_t>(peer) % history_.period()].push_back(
        {{id, back}, history_.partner(event.rank, endpoint), operand.range.bytes, operand.isWrite});
  }

  bool visitOwn(RankCells &cells, const Touch &touch, size_t rank) {
    const Event event =
        history_.event(touch.actor.id, history_.blockOf(static_cast<int64_t>(rank)));
    const Accesses accesses = ownAccessesOf(history_, event);
    if (event.kind == EventKind::Command && findOwnConflict(history_.command(event), accesses))
      return false;
    for (const Access &access : accesses)
      if (!visit(cells, touch.actor, access))
        return false;
    if (event.kind == EventKind::Release)
      cells.release(history_.plan(event).releases[event.index].buffer, event.run, touch.actor.id);
    return true;
  }

  bool visitPeers(RankCells &cells, const Touch &touch, size_t rank) {
    const Plan &plan = history_.plans()[rank];
    const Range &range = plan.endpoints[touch.endpoint].range;
    const Place place = placeOf(plan, {range.buffer, range.offset, touch.bytes});
    return visit(cells, touch.actor, {place, touch.isWrite});
  }

  bool visit(RankCells &cells, Actor actor, const Access &access) {
    ++accesses_;
    if (cells.endOf(access.place.buffer, history_.event(actor.id).run) != kNone)
      return false;
    return cells.access(actor, access, [&](const Earlier &earlier) {
      questions_.ask(
          {earlier.actor.id, history_.shiftBetweenBlocks(actor.block, earlier.actor.block)},
          actor.id);
      return true;
    });
  }

  const History &history_;
  llvm::ArrayRef<EventId> order_;
  std::vector<std::vector<Touch>> touches_; ///< by rank of the first block
  Questions questions_;
  size_t accesses_ = 0;
};

} // namespace

std::optional<Violation> findRaceOfAlike(const History &history, llvm::ArrayRef<EventId> order,
                                         bool relyOnMeetings, size_t &accesses,
                                         const ProgressFn &progress) {
  Finder finder(history, order);
  ProgressStep step(progress, "accesses to memory", "ranks", history.plans().size());
  bool isSafe = true;
  for (size_t rank = 0; rank < history.plans().size() && isSafe; ++rank) {
    step.advance();
    isSafe = finder.visitMemoryOf(rank);
  }
  accesses = finder.accesses();
  if (isSafe && finder.areOrdered(relyOnMeetings, progress))
    return std::nullopt;
  return Violation{CheckRule::Race, "what alike ranks do is not ordered", {}, {}};
}

} // namespace braid::checker
