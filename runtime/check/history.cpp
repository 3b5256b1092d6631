//===- runtime/check/history.cpp - the events of all ranks in successive runs -----------------===//

#include "runtime/check/history.h"

#include "llvm/ADT/DenseMap.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace braid::checker {

namespace {

/// Calls `onRelease(i)` and `onCommand(i)` in issue order.
template <class ReleaseFn, class CommandFn>
void forEachIssued(const Plan &plan, ReleaseFn onRelease, CommandFn onCommand) {
  uint32_t release = 0;
  for (uint32_t i = 0; i <= plan.commands.size(); ++i) {
    for (; release < plan.releases.size() && plan.releases[release].beforeCommand <= i; ++release)
      onRelease(release);
    if (i < plan.commands.size())
      onCommand(i);
  }
}

} // namespace

History::History(llvm::ArrayRef<Plan> plans, const Partners &partner, uint32_t runs, Alike alike,
                 const ProgressFn &progress)
    : plans_(plans), partner_(partner), period_(static_cast<uint32_t>(alike.period)),
      shift_(alike.shift), ranks_(1) {
  for (const Plan &plan : plans.take_front(period_))
    index(plan, runs);
  threadLength_.assign(threads_, 0);
  events_.reserve(ranks_.back().first);
  ProgressStep step(progress, "building the history", "commands", ranks_.back().first);
  for (size_t rank = 0; rank < period_; ++rank) {
    for (uint32_t run = 0; run < runs; ++run)
      addRun(rank, run, step);
    if (runs == 1) // the caller's next write marks the start of the next run
      add({EventKind::CallerWrites, static_cast<uint32_t>(rank), runs, 0, 0, 0, 0, kNone});
  }
}

void History::index(const Plan &plan, uint32_t runs) {
  RankEvents &mine = ranks_.back();
  mine.awaits.assign(plan.endpoints.size(), kNone);
  mine.signals = mine.awaits;
  mine.lastRecord.assign(plan.events, kNone);
  mine.firstThread = threads_;
  threads_ += static_cast<uint32_t>(plan.streams.size());
  mine.perRun = 1; // the caller's write
  forEachIssued(
      plan, [&](uint32_t) { ++mine.perRun; },
      [&](uint32_t i) {
        const Command &command = plan.commands[i];
        if (command.kind == CommandKind::Await)
          mine.awaits[command.endpoint] = mine.perRun;
        if (command.kind == CommandKind::Signal)
          mine.signals[command.endpoint] = mine.perRun;
        ++mine.perRun;
      });
  ++mine.perRun; // the caller's read
  EventId next = mine.first + runs * mine.perRun + (runs == 1 ? 1 : 0);
  ranks_.emplace_back().first = next;
}

void History::add(Event event) {
  event.thread = ranks_[event.rank].firstThread + event.stream;
  event.position = threadLength_[event.thread]++;
  events_.push_back(event);
}

/// Adds one run of a rank in issue order, between the caller's accesses.
void History::addRun(size_t rank, uint32_t run, ProgressStep &step) {
  const Plan &plan = plans_[rank];
  auto r = static_cast<uint32_t>(rank);
  add({EventKind::CallerWrites, r, run, 0, 0, 0, 0, kNone});
  forEachIssued(
      plan,
      [&](uint32_t i) {
        add({EventKind::Release, r, run, plan.releases[i].stream, i, 0, 0, kNone});
      },
      [&](uint32_t i) {
        const Command &command = plan.commands[i];
        add({EventKind::Command, r, run, command.stream, i, 0, 0, causeOf(rank, run, command)});
        if (command.kind == CommandKind::Record)
          ranks_[rank].lastRecord[command.event] = static_cast<EventId>(events_.size() - 1);
        step.advance();
      });
  add({EventKind::CallerReads, r, run, 0, 0, 0, 0, kNone});
}

/// An await in run e completes when its flag reaches e. Each flag is written by one signal per run,
/// in ascending order of runs, so the cause is the signal of run e. A wait for an event that was
/// never recorded completes immediately.
EventId History::causeOf(size_t rank, uint32_t run, const Command &command) const {
  if (command.kind == CommandKind::WaitEvent)
    return ranks_[rank].lastRecord[command.event];
  if (command.kind != CommandKind::Await)
    return kNone;
  EventId signal = signalFor(rank, command.endpoint, run);
  return signal == kNone ? kNever : signal; // kNever: nothing ever signals the flag
}

CheckedEvent History::describe(const Event &event) const {
  const Plan &plan = plans_[event.rank];
  CheckedEvent described{event.rank, event.run + 1, kNone, ""};
  std::string where =
      fmt::format("rank {}, {}, run {}", event.rank, plan.streams[event.stream], event.run + 1);
  switch (event.kind) {
  case EventKind::CallerWrites:
    described.text = where + ": the caller writes the inputs and provides the outputs";
    break;
  case EventKind::CallerReads:
    described.text = where + ": the caller reads the outputs";
    break;
  case EventKind::Release:
    described.text = fmt::format("{}: end of %{} in {}", where,
                                 plan.buffers[plan.releases[event.index].buffer].name,
                                 describeOrigin(plan, plan.releases[event.index].origin));
    described.line = lineOf(plan, plan.releases[event.index].origin);
    break;
  case EventKind::Command:
    described.command = event.index;
    described.text = fmt::format("{}: {} of {}", where, name(command(event).kind).str(),
                                 describeOrigin(plan, command(event).origin));
    described.line = lineOf(plan, command(event).origin);
    break;
  }
  return described;
}

//===- Executing ------------------------------------------------------------------------------===//

namespace {

struct Queue {
  std::vector<EventId> events;
  size_t next = 0;
};

/// Satisfied waits stay satisfied, so one execution order is representative: if it deadlocks, all
/// orders do.
class Executor {
public:
  Executor(const History &history, uint32_t queues, const ProgressFn &progress)
      : history_(history), step_(progress, "executing", "commands", history.events().size()),
        isDone_(history.events().size()) {
    for (size_t rank = 0; rank < history.period(); ++rank) {
      firstQueue_.push_back(queues_.size());
      size_t streams = history.plans()[rank].streams.size();
      count_.push_back(queues == 0 ? streams : std::min<size_t>(queues, streams));
      queues_.resize(queues_.size() + count_.back());
      for (EventId id : history.issued(rank))
        queues_[queueOf(history.event(id))].events.push_back(id);
    }
  }

  Execution run() {
    Execution execution;
    std::deque<size_t> ready(queues_.size());
    for (size_t q = 0; q < ready.size(); ++q)
      ready[q] = q;
    execution.order.reserve(history_.events().size());
    Sleepers sleepers;
    while (!ready.empty()) {
      size_t q = ready.front();
      ready.pop_front();
      advance(q, execution.order, sleepers, ready);
    }
    if (execution.order.size() < history_.events().size())
      execution.cycle = findCycle();
    return execution;
  }

private:
  /// Blocked queues, keyed by the event that each queue waits for.
  using Sleepers = llvm::DenseMap<EventId, llvm::SmallVector<size_t, 2>>;

  size_t queueOf(const Event &event) const {
    return firstQueue_[event.rank] + event.stream % count_[event.rank];
  }

  void advance(size_t q, std::vector<EventId> &order, Sleepers &sleepers,
               std::deque<size_t> &ready) {
    Queue &queue = queues_[q];
    while (queue.next < queue.events.size()) {
      EventId id = queue.events[queue.next];
      EventId cause = history_.event(id).cause;
      if (cause == kNever)
        return;
      if (cause != kNone && !isDone_[cause]) {
        sleepers[cause].push_back(q);
        return;
      }
      isDone_[id] = true;
      order.push_back(id);
      step_.advance();
      ++queue.next;
      if (auto woken = sleepers.find(id); woken != sleepers.end()) {
        ready.insert(ready.end(), woken->second.begin(), woken->second.end());
        sleepers.erase(woken);
      }
    }
  }

  EventId headOf(size_t q) const { return queues_[q].events[queues_[q].next]; }

  /// Follows the waits from any blocked queue to the queue that contains the awaited event, until
  /// an event repeats.
  std::vector<EventId> findCycle() const {
    size_t q = 0;
    while (queues_[q].next == queues_[q].events.size())
      ++q;
    std::vector<EventId> path;
    for (EventId head = headOf(q);; head = headOf(q)) {
      auto seen = std::find(path.begin(), path.end(), head);
      if (seen != path.end())
        return {seen, path.end()};
      path.push_back(head);
      EventId cause = history_.event(head).cause;
      if (cause == kNever)
        return {head};
      q = queueOf(history_.event(cause));
    }
  }

  const History &history_;
  ProgressStep step_;
  std::vector<Queue> queues_;
  std::vector<size_t> firstQueue_, count_; ///< by rank
  std::vector<bool> isDone_;
};

} // namespace

Execution execute(const History &history, uint32_t queues, const ProgressFn &progress) {
  return Executor(history, queues, progress).run();
}

//===- Happens before -------------------------------------------------------------------------===//

HappensBefore::HappensBefore(const History &history, bool relyOnMeetings)
    : history_(history), relyOnMeetings_(relyOnMeetings), waiters_(history.events().size()) {
  const size_t threads = size_t(history.threads()) * history.blocks();
  clocks_.assign(history.threads(), std::make_shared<Clock>(threads));
  for (const Event &event : history.events())
    if (const EventId cause = causeOf(event); cause != kNone && cause != kNever)
      ++waiters_[cause];
}

EventId HappensBefore::causeOf(const Event &event) const {
  if (relyOnMeetings_ || event.cause == kNone || history_.command(event).kind != CommandKind::Await)
    return event.cause;
  const Endpoint &endpoint = history_.plan(event).endpoints[history_.command(event).endpoint];
  return endpoint.isOfMeeting ? kNone : event.cause;
}

void HappensBefore::advance(EventId id) {
  const Event &event = history_.event(id);
  if (const EventId cause = causeOf(event); cause != kNone)
    join(event.thread, cause, history_.blockOfCause(event));
  if (waiters_[id] != 0)
    awaited_.emplace(id, clocks_[event.thread]);
  present_ = id;
}

bool HappensBefore::isKnownTo(uint32_t thread, const Event &event, uint32_t block) const {
  return (event.thread == thread && block == 0) ||
         (*clocks_[thread])[history_.numberOf(event, block)] > event.position;
}

/// Merges the event's clock into the thread's, unless the thread's clock counts the event already
/// and thus includes its clock. A clock's blocks are numbered relative to the block of its event.
void HappensBefore::join(uint32_t thread, EventId id, uint32_t block) {
  const Event &event = history_.event(id);
  auto cause = awaited_.find(id);
  if (!isKnownTo(thread, event, block)) {
    std::shared_ptr<Clock> &clock = clocks_[thread];
    if (clock.use_count() != 1)
      clock = std::make_shared<Clock>(*clock);
    const uint32_t *other = cause->second->data();
    const size_t threads = history_.threads();
    for (uint32_t from = 0; from < history_.blocks(); ++from, other += threads) {
      uint32_t *mine = clock->data() + history_.shiftedBlock(from, block) * threads;
      for (size_t i = 0; i < threads; ++i)
        mine[i] = std::max(mine[i], other[i]);
    }
    (*clock)[history_.numberOf(event, block)] = event.position + 1;
  }
  if (--waiters_[id] == 0)
    awaited_.erase(cause);
}

bool HappensBefore::isBeforePresent(EventId earlier, uint32_t block) const {
  const Event &first = history_.event(earlier), &present = history_.event(present_);
  return first.thread == present.thread && block == 0 ? first.position < present.position
                                                      : isKnownTo(present.thread, first, block);
}

} // namespace braid::checker
