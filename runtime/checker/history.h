//===- runtime/checker/history.h - what all ranks do in successive runs -------------------------===//
#pragma once

#include "runtime/checker.h"

namespace braid::checker {

using EventId = uint32_t;

/// `Event::cause` of an await that nothing ever releases.
inline constexpr EventId kNever = kNone - 1;

/// What an event is. The caller's accesses and the ends of buffers' lives stand beside the commands.
enum class EventKind : uint8_t { Command, CallerWrites, CallerReads, Release };

struct Event {
  EventKind kind;
  uint32_t rank;
  uint32_t run;     ///< 0, 1, ...
  uint32_t stream;
  uint32_t index;   ///< of the command, or of the release
  uint32_t thread;  ///< number of (rank, stream) among all
  uint32_t position; ///< in its thread
  EventId cause;    ///< the event this one waits for besides the one ahead of it, or kNone
};

/// All events, issue order within each rank, and who waits for whom.
class History {
public:
  /// Endpoints must match (see matchTransfers); `partner[rank][endpoint]` is the peer's endpoint.
  History(llvm::ArrayRef<Plan> plans, const std::vector<std::vector<uint32_t>> &partner,
          uint32_t runs);

  llvm::ArrayRef<Event> events() const { return events_; }
  const Event &event(EventId id) const { return events_[id]; }
  const Plan &plan(const Event &event) const { return plans_[event.rank]; }
  llvm::ArrayRef<Plan> plans() const { return plans_; }
  const Command &command(const Event &event) const { return plan(event).commands[event.index]; }
  /// Events of a rank in issue order.
  llvm::ArrayRef<EventId> issued(size_t rank) const { return issued_[rank]; }
  uint32_t threads() const { return threads_; }
  uint32_t partner(size_t rank, uint32_t endpoint) const { return partner_[rank][endpoint]; }

  CheckedEvent describe(EventId id) const;

private:
  void addRun(size_t rank, uint32_t run);
  void add(Event event);
  void linkAwaits();

  llvm::ArrayRef<Plan> plans_;
  const std::vector<std::vector<uint32_t>> &partner_;
  std::vector<Event> events_;
  std::vector<std::vector<EventId>> issued_;
  std::vector<std::vector<EventId>> lastRecord_; ///< by rank and event
  std::vector<uint32_t> firstThread_;            ///< by rank
  std::vector<uint32_t> threadLength_;
  uint32_t threads_ = 0;
};

/// Runs the history with `queues` hardware queues a rank. Gives the order in which events were reached,
/// or the cycle of waits that stops it.
struct Execution {
  std::vector<EventId> order;
  std::vector<EventId> cycle; ///< empty: every event was reached. Each waits for the next, the last
                              ///< for the first; one that waits for nobody ends the list
};
Execution execute(const History &history, uint32_t queues);

/// Which events happen before which, whatever the queues do: vector clocks over (rank, stream).
class HappensBefore {
public:
  /// `order` is any order in which the history can run.
  HappensBefore(const History &history, llvm::ArrayRef<EventId> order);
  /// `a` is done before `b` starts, in every execution.
  bool isBefore(EventId a, EventId b) const;
  /// Bytes that the clocks of such a history take.
  static size_t bytesFor(const History &history);

private:
  const History &history_;
  size_t width_;
  std::vector<uint32_t> clocks_; ///< threads() entries for each event
};

} // namespace braid::checker
