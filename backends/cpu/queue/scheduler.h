//===- backends/cpu/queue/scheduler.h - runs the commands of all ranks one at a time ----------===//
//
// For exploring interleavings: of all heads that could go on, a Picker chooses the next one.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/queue/picker.h"

namespace braid {

/// The ranks' queues, run by whichever thread calls drain(), one at a time.
class Scheduler {
public:
  Scheduler(std::vector<CpuDevice *> devices, Picker picker)
      : devices_(std::move(devices)), picker_(std::move(picker)) {}

  /// Runs commands until none can go on or the group is aborted.
  void drain(const RankGroup &group);
  /// For each rank: nothing of what it issued is left.
  std::vector<bool> drained() const;

private:
  void findCandidates();
  void replaceCandidate(size_t index);

  std::vector<CpuDevice *> devices_;
  Picker picker_;
  std::vector<RunnableHead> candidates_;
  int64_t clock_ = 0; ///< when the last command ended, in ns
};

} // namespace braid
