//===- runtime/check/history.h - what all ranks do in successive runs -------------------------===//
#pragma once

#include "runtime/check/checker.h"

#include "llvm/ADT/Sequence.h"

#include <memory>
#include <unordered_map>

namespace braid::checker {

using EventId = uint32_t;

/// `Event::cause` of an await that nothing ever releases.
inline constexpr EventId kNever = kNone - 1;

/// What an event is. The caller's accesses and the ends of buffers' lives stand beside the
/// commands.
enum class EventKind : uint8_t { Command, CallerWrites, CallerReads, Release };

struct Event {
  EventKind kind;
  uint32_t rank;
  uint32_t run; ///< 0, 1, ...
  uint32_t stream;
  uint32_t index;    ///< of the command, or of the release
  uint32_t thread;   ///< number of (rank, stream) among all
  uint32_t position; ///< in its thread
  EventId cause;     ///< the event this one waits for besides the one ahead of it, or kNone
};

/// All events, issue order within each rank, and who waits for whom. A rank's events have
/// successive numbers, and so have those of each of its runs, which are all alike.
class History {
public:
  /// Endpoints must match (see matchTransfers); `partner[rank][endpoint]` is the peer's endpoint.
  History(llvm::ArrayRef<Plan> plans, const std::vector<std::vector<uint32_t>> &partner,
          uint32_t runs, const ProgressFn &progress);

  llvm::ArrayRef<Event> events() const { return events_; }
  const Event &event(EventId id) const { return events_[id]; }
  const Plan &plan(const Event &event) const { return plans_[event.rank]; }
  llvm::ArrayRef<Plan> plans() const { return plans_; }
  const Command &command(const Event &event) const { return plan(event).commands[event.index]; }
  /// Events of a rank in issue order.
  auto issued(size_t rank) const { return llvm::seq(ranks_[rank].first, ranks_[rank + 1].first); }
  uint32_t threads() const { return threads_; }
  uint32_t partner(size_t rank, uint32_t endpoint) const { return partner_[rank][endpoint]; }
  /// The await for an endpoint in a run, and the signal that its peer gives for it; kNone: no such
  /// command.
  EventId awaitOf(size_t rank, uint32_t endpoint, uint32_t run) const {
    return eventOf(rank, ranks_[rank].awaits[endpoint], run);
  }
  EventId signalFor(size_t rank, uint32_t endpoint, uint32_t run) const {
    auto peer = static_cast<size_t>(plans_[rank].endpoints[endpoint].peer);
    return eventOf(peer, ranks_[peer].signals[partner(rank, endpoint)], run);
  }

  CheckedEvent describe(EventId id) const;

private:
  /// Where a rank's events are.
  struct RankEvents {
    EventId first = 0;   ///< of the rank
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
  std::vector<Event> events_;
  std::vector<RankEvents> ranks_; ///< one more than there are ranks
  std::vector<uint32_t> threadLength_;
  uint32_t threads_ = 0;
};

/// Runs the history with `queues` hardware queues a rank. Gives the order in which events were
/// reached, or the cycle of waits that stops it.
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
  explicit HappensBefore(const History &history);
  /// Goes on to `id`, the next event of the order.
  void advance(EventId id);
  /// `earlier` is done before the present event starts in every execution; not if the order has not
  /// passed it.
  bool isBeforePresent(EventId earlier) const;

private:
  /// By thread: how many of its events are known to be done. What a thread knows of itself is the
  /// position of its event, so its events have one clock in common until it hears of something new.
  using Clock = std::vector<uint32_t>;
  bool isKnownTo(uint32_t thread, const Event &event) const;
  void join(uint32_t thread, EventId id);

  const History &history_;
  std::vector<std::shared_ptr<Clock>> clocks_; ///< by thread
  std::vector<uint32_t> waiters_;              ///< by event: who still waits for it
  std::unordered_map<EventId, std::shared_ptr<Clock>> awaited_; ///< of passed events with waiters
  EventId present_ = kNone;
};

} // namespace braid::checker
