//===- runtime/check/history.h - what all ranks do in successive runs -------------------------===//
#pragma once

#include "runtime/check/alike.h"

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
/// If ranks are alike (alike.h), these are the events of the first block of ranks. An event and the
/// number of a block then mean the event in that block.
class History {
public:
  /// Endpoints must match (see matchTransfers); `partner[rank][endpoint]` is the peer's endpoint.
  /// `alike` says which ranks stand for all.
  History(llvm::ArrayRef<Plan> plans, const std::vector<std::vector<uint32_t>> &partner,
          uint32_t runs, Alike alike, const ProgressFn &progress);

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
  const std::vector<std::vector<uint32_t>> &partner_;
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
