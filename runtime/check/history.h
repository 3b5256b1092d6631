//===- runtime/check/history.h - the events of all ranks in successive runs -------------------===//
//
// If ranks are alike (runtime/plan/alike_ranks.h), it suffices to follow the waits of rank 0 or, if
// ranks span hosts, of the first host's ranks. Ranks 0 .. P-1 form the first block, and the mesh of
// N ranks consists of N/P blocks; P is the period. Below, b + d denotes block b shifted by d, and
// b - d the inverse. A shift is an addition or an xor; it matters only that shifts form a group.
//
// The argument applies only to the order of events. The accessed bytes and their contents differ
// between ranks (each rank owns a different block), so they are checked for each rank.
//
// Let (e, b) be the event in block b that corresponds to event e of the first block: the same
// command on the same stream in the same run. Ranks are alike if, for all b, (e, b) follows (f, b)
// on its stream if and only if (e, 0) follows (f, 0); (e, b) waits for a record (f, b) if and only
// if (e, 0) waits for (f, 0); and (e, b) awaits the signal (f, b + d) if and only if (e, 0) awaits
// (f, d). Equal outlines imply this, rank by rank: they cover streams and kinds of commands,
// records and waits, ends of lifetimes, and the partner of each endpoint. So shifting all events by
// a block changes no wait, for any N/P.
//
//   deadlock  Suppose the events of the first block have an order in which each event follows its
//             predecessors, including those on its queue, and follows e whenever it waits for
//             (e, d). Then the events can be executed in this order, each in all blocks: every
//             event waits only for earlier ones. Without such an order, a chain of waits leads from
//             some e to (e, d), and repeating the chain often enough leads back to e itself, so the
//             full mesh has no order either. The safe number of queues is therefore the same.
//   order     (e, b) is before (f, c) if and only if (e, b - c) is before (f, 0), because shifting
//             a chain of waits by c yields a chain of waits. So the clock of (f, c) is the shifted
//             clock of (f, 0), and the clocks of the first block suffice.
//   signals   For the same reason, no signal is early if no signal of the first block is early.
//   races     A rank's memory is accessed by its local commands, and by peers' commands through the
//             endpoints that match its own. Its Plan contains both, except for the number of bytes
//             that a peer accesses, which is part of the outlines. Every rank's accesses are
//             visited in the order above, and cells (cells.h) determine which events must be
//             ordered. Most such pairs are the same for all ranks. The clocks show their order.
//   result    Every command of every rank is followed, in a valid execution order: each event in
//             all blocks before the next event.
//
// Programs whose ranks are not alike are checked rank by rank, and so are unsafe programs, to
// produce the counterexample.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/check/transfers.h"

#include "llvm/ADT/Sequence.h"

#include <memory>
#include <unordered_map>

namespace braid::checker {

using EventId = uint32_t;

/// `Event::cause` of an await that never completes.
inline constexpr EventId kNever = kNone - 1;

/// Commands, the caller's accesses, and the ends of buffers' lifetimes.
enum class EventKind : uint8_t { Command, CallerWrites, CallerReads, Release };

struct Event {
  EventKind kind;
  uint32_t rank;
  uint32_t run; ///< 0, 1, ...
  uint32_t stream;
  uint32_t index;    ///< index of the command or the release
  uint32_t thread;   ///< index of (rank, stream) among all threads
  uint32_t position; ///< position in its thread
  EventId cause;     ///< event awaited in addition to the predecessor, or kNone
};

/// All events, their issue order on each rank, and their waits. The events of a rank are numbered
/// consecutively, and so are the events of each run. All runs have the same events.
///
/// If ranks are alike, this is the history of the first block of ranks. An event plus a block index
/// then denotes the corresponding event of that block.
class History {
public:
  /// Endpoints must match (see matchTransfers); `partner[rank][endpoint]` is the peer's endpoint.
  /// `alike` describes the ranks that represent all others.
  History(llvm::ArrayRef<Plan> plans, const Partners &partner, uint32_t runs, Alike alike,
          const ProgressFn &progress);

  llvm::ArrayRef<Event> events() const { return events_; }
  const Event &event(EventId id) const { return events_[id]; }
  /// Returns the event of `block` that corresponds to event `id`.
  Event event(EventId id, uint32_t block) const {
    Event moved = events_[id];
    moved.rank += block * period_;
    return moved;
  }
  uint32_t period() const { return period_; }
  uint32_t blocks() const { return static_cast<uint32_t>(plans_.size()) / period_; }
  uint32_t blockOf(int64_t rank) const { return static_cast<uint32_t>(rank) / period_; }
  /// Return the image of block `from` under the shift that maps block 0 to `by`, and the shift that
  /// maps block `from` to block `to`.
  uint32_t shiftedBlock(uint32_t from, uint32_t by) const {
    return static_cast<uint32_t>(shifted(shift_, from, by, blocks()));
  }
  uint32_t shiftBetweenBlocks(uint32_t from, uint32_t to) const {
    return static_cast<uint32_t>(shiftBetween(shift_, from, to, blocks()));
  }
  /// Returns the block of an event's cause, relative to the event's block.
  uint32_t blockOfCause(const Event &event) const {
    return event.cause != kNone && blocks() > 1 && command(event).kind == CommandKind::Await
               ? blockOf(plan(event).endpoints[command(event).endpoint].peer)
               : 0;
  }
  const Plan &plan(const Event &event) const { return plans_[event.rank]; }
  llvm::ArrayRef<Plan> plans() const { return plans_; }
  const Command &command(const Event &event) const { return plan(event).commands[event.index]; }
  /// Returns the events of a rank of the first block, in issue order.
  auto issued(size_t rank) const { return llvm::seq(ranks_[rank].first, ranks_[rank + 1].first); }
  /// Returns the number of threads per block. Threads are numbered block by block.
  uint32_t threads() const { return threads_; }
  /// Returns the index of the event's thread in `block` among the threads of all blocks.
  size_t numberOf(const Event &event, uint32_t block) const {
    return event.thread + size_t(block) * threads_;
  }
  uint32_t partner(size_t rank, uint32_t endpoint) const { return partner_[rank][endpoint]; }
  /// Return the await for an endpoint in a run and the peer's signal for it, or kNone if there is
  /// no such command. The events are in the blocks of the rank and of the peer, respectively.
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
  struct RankEvents {
    EventId first = 0;   ///< the rank's first event
    uint32_t perRun = 0; ///< events per run
    uint32_t firstThread = 0;
    std::vector<uint32_t> awaits, signals; ///< by endpoint: index of the event in a run, or kNone
    std::vector<EventId> lastRecord;       ///< by event number in the Plan
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
  std::vector<RankEvents> ranks_; ///< the first block's ranks and a sentinel
  std::vector<uint32_t> threadLength_;
  uint32_t threads_ = 0;
};

/// Returns Unsupported if the first `period` ranks, which represent all ranks, have too many
/// commands, or if following them needs more memory, in addition to the Plans, than is available.
Status expectRoom(llvm::ArrayRef<Plan> plans, int64_t period, uint32_t runs);

/// The result of running the history with `queues` hardware queues per rank: the order in which the
/// events were reached (arbitrary among blocks), or the cycle of waits that blocks all progress.
struct Execution {
  std::vector<EventId> order;
  /// Empty if every event was reached. Each event waits for the next one, and the last for the
  /// first. If no command signals an await, the cycle consists of that await alone.
  std::vector<EventId> cycle;
};
Execution execute(const History &history, uint32_t queues, const ProgressFn &progress);

/// The happens-before relation, independent of queues: vector clocks over (rank, stream), advanced
/// event by event in a valid execution order. Stores only the clocks that later events need: those
/// of threads and of events with pending waiters.
class HappensBefore {
public:
  /// If `relyOnMeetings`, the arrival of all ranks at a group of messages also orders their events.
  HappensBefore(const History &history, bool relyOnMeetings);
  /// Advances to `id`, the next event in execution order.
  void advance(EventId id);
  /// Returns true if `earlier`, in the block shifted by `block` from the block of the present
  /// event, completes before the present event starts in every execution. Returns false for events
  /// that advance() has not reached.
  bool isBeforePresent(EventId earlier, uint32_t block = 0) const;

private:
  /// For each thread, the number of its events that are known to be complete. A thread's own count
  /// is not kept, because its events are ordered by position; they share a clock until the thread
  /// joins another one. Blocks of threads are numbered relative to the thread's block.
  using Clock = std::vector<uint32_t>;
  bool isKnownTo(uint32_t thread, const Event &event, uint32_t block) const;
  void join(uint32_t thread, EventId id, uint32_t block);
  EventId causeOf(const Event &event) const;

  const History &history_;
  const bool relyOnMeetings_;
  std::vector<std::shared_ptr<Clock>> clocks_; ///< by thread
  std::vector<uint32_t> waiters_;              ///< by event: number of pending waiters
  std::unordered_map<EventId, std::shared_ptr<Clock>>
      awaited_; ///< clocks of passed events with pending waiters
  EventId present_ = kNone;
};

} // namespace braid::checker
