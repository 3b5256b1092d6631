//===- backends/cpu/queue/scheduler.cpp - runs the commands of all ranks one at a time --------===//

#include "backends/cpu/queue/scheduler.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

void Scheduler::findCandidates() {
  candidates_.clear();
  for (size_t rank = 0; rank < devices_.size(); ++rank) {
    const QueueList &queues = devices_[rank]->queues();
    for (size_t queue = 0; queue < queues.size(); ++queue) {
      const QueuedCommand *front = queues[queue]->front();
      if (front && isRunnable(*front))
        candidates_.push_back({static_cast<int64_t>(rank), static_cast<uint32_t>(queue), front});
    }
  }
}

/// Updates the head at `index`, whose command has run without unblocking any other head.
void Scheduler::replaceCandidate(size_t index) {
  RunnableHead &candidate = candidates_[index];
  candidate.command = devices_[candidate.rank]->queues()[candidate.queue]->front();
  if (!candidate.command || !isRunnable(*candidate.command))
    candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(index));
}

bool Scheduler::drain(const RankGroup &group) {
  findCandidates();
  while (!group.isAborted() && !candidates_.empty()) {
    const size_t chosen = picker_(candidates_);
    const RunnableHead next = candidates_[chosen];
    const QueuedCommand::Kind kind = next.command->kind;
    devices_[next.rank]->queues()[next.queue]->step(clock_);
    // A store may unblock waits, and an exchange may unblock its peers' exchanges.
    if (kind == QueuedCommand::Kind::Store || kind == QueuedCommand::Kind::Exchange)
      findCandidates();
    else
      replaceCandidate(chosen);
  }
  return llvm::all_of(devices_, [](const CpuDevice *device) { return device->isDrained(); });
}

} // namespace braid
