//===- runtime/checker/history.cpp - what all ranks do in successive runs ---------------------===//

#include "runtime/checker/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

namespace braid::checker {

History::History(llvm::ArrayRef<Plan> plans, const std::vector<std::vector<uint32_t>> &partner,
                 uint32_t runs)
    : plans_(plans), partner_(partner), issued_(plans.size()) {
  for (const Plan &plan : plans) {
    firstThread_.push_back(threads_);
    threads_ += static_cast<uint32_t>(plan.streams.size());
    lastRecord_.emplace_back(plan.events, kNone);
  }
  threadLength_.assign(threads_, 0);
  for (size_t rank = 0; rank < plans.size(); ++rank)
    addRuns(rank, runs);
  linkAwaits();
}

void History::add(Event event) {
  event.thread = firstThread_[event.rank] + event.stream;
  event.position = threadLength_[event.thread]++;
  issued_[event.rank].push_back(static_cast<EventId>(events_.size()));
  events_.push_back(event);
}

/// What the caller does after a run shows where the next one begins, so a single run is followed by
/// that.
void History::addRuns(size_t rank, uint32_t runs) {
  for (uint32_t run = 0; run < runs; ++run)
    addRun(rank, run);
  if (runs == 1)
    add({EventKind::CallerWrites, static_cast<uint32_t>(rank), runs, 0, 0, 0, 0, kNone});
}

/// One run of one rank, in issue order, between the caller's accesses.
void History::addRun(size_t rank, uint32_t run) {
  const Plan &plan = plans_[rank];
  auto r = static_cast<uint32_t>(rank);
  add({EventKind::CallerWrites, r, run, 0, 0, 0, 0, kNone});
  size_t release = 0;
  auto addReleases = [&](size_t before) {
    for (; release < plan.releases.size() && plan.releases[release].beforeCommand <= before;
         ++release)
      add({EventKind::Release, r, run, plan.releases[release].stream,
           static_cast<uint32_t>(release), 0, 0, kNone});
  };
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    addReleases(i);
    const Command &command = plan.commands[i];
    Event event{EventKind::Command, r, run, command.stream, i, 0, 0, kNone};
    if (command.kind == CommandKind::WaitEvent)
      event.cause = lastRecord_[rank][command.event]; // an event never recorded holds nothing up
    add(event);
    if (command.kind == CommandKind::Record)
      lastRecord_[rank][command.event] = static_cast<EventId>(events_.size() - 1);
  }
  addReleases(plan.commands.size());
  add({EventKind::CallerReads, r, run, 0, 0, 0, 0, kNone});
}

/// An await of run e passes when its word has reached e: at the first signal of run e or later.
/// Every word has at most one signal a run, and a rank's signals of one word ascend with its
/// runs.
void History::linkAwaits() {
  std::map<std::pair<size_t, uint32_t>, std::map<uint32_t, EventId>> signals; // (rank, word): run
  for (EventId id = 0; id < events_.size(); ++id) {
    const Event &event = events_[id];
    if (event.kind != EventKind::Command || command(event).kind != CommandKind::Signal)
      continue;
    const Endpoint &mine = plan(event).endpoints[command(event).endpoint];
    auto peer = static_cast<size_t>(mine.peer);
    const Endpoint &other = plans_[peer].endpoints[partner(event.rank, command(event).endpoint)];
    signals[{peer, other.word}].emplace(event.run, id);
  }
  for (Event &event : events_) {
    if (event.kind != EventKind::Command || command(event).kind != CommandKind::Await)
      continue;
    const auto &written = signals[{event.rank, command(event).word}];
    auto found = written.lower_bound(event.run);
    // kNever: nothing will ever release it.
    event.cause = found == written.end() ? kNever : found->second;
  }
}

CheckedEvent History::describe(EventId id) const {
  const Event &event = events_[id];
  const Plan &plan = plans_[event.rank];
  CheckedEvent described{event.rank, event.run + 1, kNone, ""};
  std::string where =
      fmt::format("rank {}, {}, run {}", event.rank, plan.streams[event.stream], event.run + 1);
  switch (event.kind) {
  case EventKind::CallerWrites:
    described.text = where + ": the caller writes the inputs and hands over the outputs";
    break;
  case EventKind::CallerReads:
    described.text = where + ": the caller reads the outputs";
    break;
  case EventKind::Release:
    described.text = fmt::format("{}: end of %{} in {}", where,
                                 plan.buffers[plan.releases[event.index].buffer].name,
                                 describeOrigin(plan, plan.releases[event.index].origin));
    break;
  case EventKind::Command:
    described.command = event.index;
    described.text = fmt::format("{}: {} of {}", where, name(command(event).kind).str(),
                                 describeOrigin(plan, command(event).origin));
    break;
  }
  return described;
}

//===- Executing ------------------------------------------------------------------------------===//

namespace {

/// The events of one hardware queue, in issue order.
struct Queue {
  std::vector<EventId> events;
  size_t next = 0;
};

/// Since waits only ever become true, one order decides for all: if this one gets stuck, all do.
class Executor {
public:
  Executor(const History &history, uint32_t queues)
      : history_(history), isDone_(history.events().size()) {
    for (size_t rank = 0; rank < history.plans().size(); ++rank) {
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
    std::vector<std::vector<size_t>> sleepers(history_.events().size());
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
  size_t queueOf(const Event &event) const {
    return firstQueue_[event.rank] + event.stream % count_[event.rank];
  }

  void advance(size_t q, std::vector<EventId> &order, std::vector<std::vector<size_t>> &sleepers,
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
      ++queue.next;
      ready.insert(ready.end(), sleepers[id].begin(), sleepers[id].end());
      sleepers[id].clear();
    }
  }

  EventId headOf(size_t q) const { return queues_[q].events[queues_[q].next]; }

  /// From any stuck head to the head of the queue that holds what it waits for, until one repeats.
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
  std::vector<Queue> queues_;
  std::vector<size_t> firstQueue_, count_; ///< by rank
  std::vector<bool> isDone_;
};

} // namespace

Execution execute(const History &history, uint32_t queues) {
  return Executor(history, queues).run();
}

//===- Happens before -------------------------------------------------------------------------===//

HappensBefore::HappensBefore(const History &history)
    : history_(history), clocks_(history.threads(), Clock(history.threads())),
      waiters_(history.events().size()) {
  for (const Event &event : history.events())
    if (event.cause != kNone && event.cause != kNever)
      ++waiters_[event.cause];
}

void HappensBefore::advance(EventId id) {
  const Event &event = history_.event(id);
  Clock &clock = clocks_[event.thread];
  if (event.cause != kNone) {
    auto cause = awaited_.find(event.cause);
    for (size_t i = 0; i < clock.size(); ++i)
      clock[i] = std::max(clock[i], cause->second[i]);
    if (--waiters_[event.cause] == 0)
      awaited_.erase(cause);
  }
  clock[event.thread] = event.position + 1;
  if (waiters_[id] != 0)
    awaited_.emplace(id, clock);
  present_ = id;
}

bool HappensBefore::isBeforePresent(EventId earlier) const {
  const Event &first = history_.event(earlier);
  const Clock &clock = clocks_[history_.event(present_).thread];
  return earlier != present_ && clock[first.thread] > first.position;
}

} // namespace braid::checker
