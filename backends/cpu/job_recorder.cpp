//===- backends/cpu/job_recorder.cpp - records in the job memory which commands a rank runs ---===//

#include "backends/cpu/job_recorder.h"

#include "backends/cpu/queue/command_queue.h"
#include "backends/cpu/queue/flags.h"

#include <cassert>

namespace braid {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed, kRelease = std::memory_order_release;
constexpr uint64_t kNothing = ~uint64_t(0);

uint64_t numberOf(const QueuedCommand &command) {
  const Tag &tag = command.tag;
  return uint64_t(tag.run) << 32 | ((tag.plan ? tag.plan->firstCommand : 0) + tag.command);
}

} // namespace

JobRecorder::JobRecorder(RankSlot &slot, CommandObserver *next)
    : slot_(slot), next_(next), workers_(new Worker[kMaxPlanStreams]) {}

void JobRecorder::opened(uint32_t queue) {
  assert(queue < kMaxPlanStreams);
  if (queue < kQueueSlots)
    slot_.queue[queue].sinceNs.store(monotonicNs(), kRelaxed);
  slot_.queues.store(std::min(queue + 1, kQueueSlots), kRelaxed);
  if (next_)
    next_->opened(queue);
}

void JobRecorder::issued(uint32_t queue, const QueuedCommand &command) {
  slot_.issued.store(++issued_, kRelaxed);
  slot_.runs.store(command.tag.run, kRelaxed);
  if (next_)
    next_->issued(queue, command);
}

bool JobRecorder::begin(uint32_t queue, const QueuedCommand &command) {
  const uint64_t now = monotonicNs(), number = numberOf(command);
  if (queue < kQueueSlots) {
    slot_.queue[queue].sinceNs.store(now, kRelaxed);
    slot_.queue[queue].current.store(number, kRelaxed);
  }
  const uint64_t sequence = slot_.flightNext.fetch_add(1, kRelaxed);
  workers_[queue].sequence = sequence;
  FlightEntry &entry = slot_.flight[sequence % kFlightEntries];
  // A reader that sees a store after this 0 also sees the 0, so it never mixes two entries.
  entry.sequence.store(0, kRelaxed);
  entry.command.store(number, kRelease);
  entry.beginNs.store(now, kRelease);
  entry.endNs.store(0, kRelease);
  entry.sequence.store(sequence, kRelease);
  return next_ ? next_->begin(queue, command) : true;
}

void JobRecorder::block(uint32_t queue, const QueuedCommand &command, uint32_t seen) {
  if (queue >= kQueueSlots)
    return;
  QueueSlot &slot = slot_.queue[queue];
  slot.flagValue.store(seen, kRelaxed);
  const bool isOfFlag = command.kind == QueuedCommand::Kind::Wait;
  slot.wantedValue.store(isOfFlag ? command.args.flag.value : 0, kRelaxed);
  slot.isWaiting.store(1, kRelaxed);
}

void JobRecorder::waiting(uint32_t queue, const QueuedCommand &command, uint32_t seen) {
  block(queue, command, seen);
  if (next_)
    next_->waiting(queue, command, seen);
}

void JobRecorder::showWait(uint32_t queue, const QueuedCommand &command) {
  if (queue < kQueueSlots)
    slot_.queue[queue].current.store(numberOf(command), kRelaxed);
  const bool isOfFlag = command.kind == QueuedCommand::Kind::Wait;
  block(queue, command, isOfFlag ? flagAt(command.args.flag.address).load(kRelaxed) : 0);
}

/// Reports progress within a command.
void JobRecorder::moved(uint32_t queue, const QueuedCommand &command) {
  slot_.arrivals.fetch_add(1, kRelaxed);
  if (next_)
    next_->moved(queue, command);
}

void JobRecorder::end(uint32_t queue, const QueuedCommand &command) {
  if (next_)
    next_->end(queue, command);
  const uint64_t now = monotonicNs();
  Worker &worker = workers_[queue];
  FlightEntry &entry = slot_.flight[worker.sequence % kFlightEntries];
  // The other queues may have filled the ring once while this command was running.
  if (entry.sequence.load(kRelaxed) == worker.sequence)
    entry.endNs.store(now, kRelaxed);
  if (queue >= kQueueSlots) {
    slot_.completedBeyond.fetch_add(1, kRelaxed);
    return;
  }
  QueueSlot &slot = slot_.queue[queue];
  slot.isWaiting.store(0, kRelaxed);
  slot.lastDone.store(numberOf(command), kRelaxed);
  slot.current.store(kNothing, kRelaxed);
  slot.sinceNs.store(now, kRelaxed);
  slot.completed.store(++worker.completed, kRelaxed);
}

} // namespace braid
