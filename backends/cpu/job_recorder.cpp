//===- backends/cpu/job_recorder.cpp - records a rank's commands in the job memory ------------===//

#include "backends/cpu/job_recorder.h"

#include "backends/cpu/queue/command_queue.h"
#include "backends/cpu/queue/flags.h"

namespace braid {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint64_t kNothing = ~uint64_t(0);

uint64_t numberOf(const QueuedCommand &command) {
  const Tag &tag = command.tag;
  return uint64_t(tag.run) << 32 | ((tag.plan ? tag.plan->firstCommand : 0) + tag.command);
}

} // namespace

JobRecorder::JobRecorder(RankSlot &slot, CommandObserver *next) : slot_(slot), next_(next) {}

void JobRecorder::opened(uint32_t queue) {
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
  if (queue < kQueueSlots) {
    slot_.queue[queue].sinceNs.store(monotonicNs(), kRelaxed);
    slot_.queue[queue].current.store(numberOf(command), kRelaxed);
  }
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
  if (queue >= kQueueSlots) {
    slot_.completedBeyond.fetch_add(1, kRelaxed);
    return;
  }
  QueueSlot &slot = slot_.queue[queue];
  slot.isWaiting.store(0, kRelaxed);
  slot.lastDone.store(numberOf(command), kRelaxed);
  slot.current.store(kNothing, kRelaxed);
  slot.sinceNs.store(monotonicNs(), kRelaxed);
  slot.completed.fetch_add(1, kRelaxed);
}

} // namespace braid
