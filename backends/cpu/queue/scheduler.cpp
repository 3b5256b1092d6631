//===- backends/cpu/queue/scheduler.cpp - runs the commands of all ranks one at a time --------===//

#include "backends/cpu/queue/scheduler.h"

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

void Scheduler::drain(const RankGroup &group) {
  for (findCandidates(); !group.isAborted() && !candidates_.empty(); findCandidates()) {
    const RunnableHead next = candidates_[picker_(candidates_)];
    devices_[next.rank]->queues()[next.queue]->step(clock_);
  }
}

std::vector<bool> Scheduler::drained() const {
  std::vector<bool> drained;
  for (CpuDevice *device : devices_) {
    bool isEmpty = true;
    for (HardwareQueue *queue : device->queues())
      isEmpty &= queue->front() == nullptr;
    drained.push_back(isEmpty);
  }
  return drained;
}

} // namespace braid
