//===- backends/cpu/queue/scheduler.h - runs the commands of all ranks one at a time ----------===//
//
// Explores interleavings: a Picker repeatedly chooses one of the queue heads that can run now.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/queue/picker.h"

namespace braid {

/// Runs the commands of all ranks' queues one at a time, on the thread that calls drain().
class Scheduler {
public:
  Scheduler(std::vector<CpuDevice *> devices, Picker picker)
      : devices_(std::move(devices)), picker_(std::move(picker)) {}

  /// Runs commands until none can run or the group is aborted. Returns true if all have completed.
  bool drain(const RankGroup &group);

private:
  void findCandidates();
  void replaceCandidate(size_t index);

  std::vector<CpuDevice *> devices_;
  Picker picker_;
  std::vector<RunnableHead> candidates_;
  int64_t clock_ = 0; ///< end of the last command, in ns
};

} // namespace braid
