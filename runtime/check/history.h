//===- runtime/check/history.h - what all ranks do in successive runs -------------------------===//
//
// If ranks are alike (runtime/plan/alike_ranks.h), it suffices to follow the waits of rank 0; or,
// if ranks have hosts, those of the first host's ranks. Ranks 0 .. P-1 are the first block, and the
// mesh consists of N/P blocks; P is called the period. Below, b + d and b - d are blocks moved by d
// and back, by addition or by xor. The argument only uses that this is a group.
//
// This shows the order of events only. The bytes that commands touch, and the data in them, differ
// between ranks (a rank's own block lies elsewhere), so these are checked for each rank.
//
// The argument. Let (e, b) be the event in block b that corresponds to event e of the first block:
// the same command of the same stream in the same run. Ranks are alike if for all b: (e, b) comes
// after (f, b) on its stream if and only if (e, 0) comes after (f, 0); it waits for a record (f, b)
// if and only if (e, 0) waits for (f, 0); and it awaits the signal (f, b + d) if and only if (e, 0)
// awaits (f, d). Equal outlines show exactly that, rank by rank: streams and kinds of commands,
// records and waits, the ends of buffers, and the partner of each endpoint. So moving all events by
// a block changes no wait, for any N/P.
//
//   deadlock  Suppose the events of the first block have an order in which each event follows its
//             predecessors, those on its queue included, and follows e whenever it waits for
//             (e, d). Then all (e, b) can be executed, one e after the other: each waits only for
//             earlier ones. If there is no such order, a cycle leads from e to (e, d), and going
//             around it often enough leads back to e itself; so all ranks have none, either. The
//             safe number of queues is the same.
//   order     (e, b) is before (f, c) if and only if (e, b - c) is before (f, 0): a chain of waits,
//             moved by c, is a chain of waits. So the clock of (f, c) is the moved clock of (f, 0),
//             and the clocks of the first block suffice.
//   signals   For the same reason no signal comes early if none of the first block does.
//   races     A rank's memory is touched by its own commands, and by peers' commands through the
//             endpoints that meet its own. Both are in its Plan, except for the number of bytes
//             that a peer touches, which outlines have. So every rank's accesses are visited, in
//             the order above, and cells (cells.h) tell which pairs of events must be ordered.
//             Most pairs are equal for all ranks. Every pair is looked up in the clocks.
//   result    Every command of every rank is followed, in an order in which the history can run:
//             each event in all blocks before the next one.
//
// Programs that this finds unsafe, and ranks that are not alike, are checked rank by rank, which
// produces the counterexample.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/transfers.h"

#include "llvm/ADT/Sequence.h"

#include <memory>
#include <unordered_map>

namespace braid::checker {

using EventId = uint32_t;

/// `Event::cause` of an await that nothing ever releases.
inline constexpr EventId kNever = kNone - 1;

/// Kinds of events: commands, the caller's accesses, and the ends of buffers' lives.
enum class EventKind : uint8_t { Command, CallerWrites, CallerReads, Release };

struct Event {
  EventKind kind;
  uint32_t rank;
  uint32_t run; ///< 0, 1, ...
  uint32_t stream;
  uint32_t index;    ///< index of the command, or of the release
  uint32_t thread;   ///< number of (rank, stream) among all
  uint32_t position; ///< in its thread
  EventId cause;     ///< the event this one waits for besides the one ahead of it, or kNone
};

/// All events, their issue order on each rank, and their waits. A rank's events have successive
/// numbers, and so have those of each of its runs. All runs have equal events.
///
/// If ranks are alike, these are the events of the first block of ranks. An event and the
/// number of a block then mean the event in that block.
class History {
public:
  /// Endpoints must match (see matchTransfers); `partner[rank][endpoint]` is the peer's endpoint.
  /// `alike` says which ranks stand for all.
  History(llvm::ArrayRef<Plan> plans, const Partners &partner, uint32_t runs, Alike alike,
          const ProgressFn &progress);

  llvm::ArrayRef<Event> events() const { return events_; }
  const Event &event(EventId id) const { return events_[id]; }
  /// The one of a block.
  Event event(EventId id, uint32_t block) const {
    Event moved = events_[id];
    moved.rank += block * period_;
    return moved;
  }
  uint32_t period() const { return period_; }
  uint32_t blocks() const { return static_cast<uint32_t>(plans_.size()) / period_; }
  uint32_t blockOf(int64_t rank) const { return static_cast<uint32_t>(rank) / period_; }
  /// The number of block `from` after a shift that moves block 0 to `by`; and the shift that moves
  /// `from` to `to`.
  uint32_t shiftedBlock(uint32_t from, uint32_t by) const {
    return static_cast<uint32_t>(shifted(shift_, from, by, blocks()));
  }
  uint32_t shiftBetweenBlocks(uint32_t from, uint32_t to) const {
    return static_cast<uint32_t>(shiftBetween(shift_, from, to, blocks()));
  }
  /// The block of an event's cause, as seen from the event's.
  uint32_t blockOfCause(const Event &event) const {
    return event.cause != kNone && blocks() > 1 && command(event).kind == CommandKind::Await
               ? blockOf(plan(event).endpoints[command(event).endpoint].peer)
               : 0;
  }
  const Plan &plan(const Event &event) const { return plans_[event.rank]; }
  llvm::ArrayRef<Plan> plans() const { return plans_; }
  const Command &command(const Event &event) const { return plan(event).commands[event.index]; }
  /// Events of a rank of the first block, in issue order.
  auto issued(size_t rank) const { return llvm::seq(ranks_[rank].first, ranks_[rank + 1].first); }
  /// Threads of one block; those of the next block follow.
  uint32_t threads() const { return threads_; }
  /// The number of an event's thread, of an event in a block, among those of all blocks.
  size_t numberOf(const Event &event, uint32_t block) const {
    return event.thread + size_t(block) * threads_;
  }
  uint32_t partner(size_t rank, uint32_t endpoint) const { return partner_[rank][endpoint]; }
  /// The await for an endpoint in a run, and the signal that its peer gives for it; kNone: no such
  /// command. They are of the block of the rank, and of the peer.
  EventId awaitOf(size_t rank, uint32_t endpoint, uint32_t run) const {
    const size_t first = rank % period_;
    return eventOf(first, ranks_[first].awaits[endpoint], run);
  }
  EventId signalFor(size_t rank, uint32_t endpoint, uint32_t run) const {
    const size_t peer = static_cast<size_t>(plans_[rank].endpoints[endpoint].peer) % period_;
    return eventOf(peer, ranks_[peer].signals[partner(rank, endpoint)], run);
  }

  CheckedEvent describe(const Event &event) const;
  CheckedEvent describe(EventId id) const { return describe(events_[id]); }

private:
  /// The numbers of a rank's events.
  struct RankEvents {
    EventId first = 0;   ///< the rank's first event
    uint32_t perRun = 0; ///< events
    uint32_t firstThread = 0;
    std::vector<uint32_t> awaits, signals; ///< by endpoint: which event of a run, or kNone
    std::vector<EventId> lastRecord;       ///< by event of the Plan
  };
  void index(const Plan &plan, uint32_t runs);
  void addRun(size_t rank, uint32_t run, ProgressStep &step);
  void add(Event event);
  EventId causeOf(size_t rank, uint32_t run, const Command &command) const;
  EventId eventOf(size_t rank, uint32_t ofRun, uint32_t run) const {
    return ofRun == kNone ? kNone : ranks_[rank].first + run * ranks_[rank].perRun + ofRun;
  }

  llvm::ArrayRef<Plan> plans_;
  const Partners &partner_;
  uint32_t period_;
  Shift shift_;
  std::vector<Event> events_;
  std::vector<RankEvents> ranks_; ///< for the first block, and one more
  std::vector<uint32_t> threadLength_;
  uint32_t threads_ = 0;
};

/// Runs the history with `queues` hardware queues a rank. Gives the order in which events were
/// reached, those of all blocks in any order, or the cycle of waits that stops it.
struct Execution {
  std::vector<EventId> order;
  std::vector<EventId> cycle; ///< empty: every event was reached. Each waits for the next, the last
                              ///< for the first; one that waits for nobody ends the list
};
Execution execute(const History &history, uint32_t queues, const ProgressFn &progress);

/// Which events happen before which, whatever the queues do: vector clocks over (rank, stream),
/// advanced event by event in an order in which the history can run. Only what later events need is
/// kept: the clock of each thread, and those of events that somebody still waits for.
class HappensBefore {
public:
  /// `relyOnMeetings`: that all ranks of a group of messages have come orders what they do.
  HappensBefore(const History &history, bool relyOnMeetings);
  /// Goes on to `id`, the next event of the order.
  void advance(EventId id);
  /// `earlier`, of the block shifted by `block` from the present event's, is done before that
  /// starts in every execution; not if the order has not passed it.
  bool isBeforePresent(EventId earlier, uint32_t block = 0) const;

private:
  /// For each thread, the number of its events that are known to be done. A thread's own count is
  /// the position of its event, so its events share one clock until it learns something new. Blocks
  /// of threads are numbered relative to the thread's own block.
  using Clock = std::vector<uint32_t>;
  bool isKnownTo(uint32_t thread, const Event &event, uint32_t block) const;
  void join(uint32_t thread, EventId id, uint32_t block);
  EventId causeOf(const Event &event) const;

  const History &history_;
  const bool relyOnMeetings_;
  std::vector<std::shared_ptr<Clock>> clocks_; ///< by thread
  std::vector<uint32_t> waiters_;              ///< by event: who still waits for it
  std::unordered_map<EventId, std::shared_ptr<Clock>>
      awaited_; ///< clocks of passed events with waiters
  EventId present_ = kNone;
};

} // namespace braid::checker
