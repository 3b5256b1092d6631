//===- backends/cpu/scheduler.h - runs the commands of all ranks one at a time ----------------===//
//
// For exploring interleavings: of all heads that could go on, a Picker chooses the next one. A
// Picker is a function, so that other strategies (priorities, complete enumeration) need nothing
// else changed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/cpu_device.h"
#include "runtime/pending_report.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>

namespace braid {

/// A head that could run now.
struct Candidate {
  int64_t rank;
  uint32_t queue;
};

/// Chooses one of the candidates, of which there is at least one; they are ordered by rank and
/// queue.
using Picker = std::function<size_t(llvm::ArrayRef<Candidate>)>;

/// Every candidate with equal chance. The same seed gives the same choices on every platform.
Picker seededPicker(uint64_t seed);

/// The ranks' queues, run by whichever thread calls drain(), one at a time.
class Scheduler {
public:
  Scheduler(std::vector<CpuDevice *> devices, Picker picker)
      : devices_(std::move(devices)), picker_(std::move(picker)) {}

  /// Runs commands until none can go on or the group is aborted.
  void drain(const InProcessGroup &group);
  /// For each rank: nothing of what it issued is left.
  std::vector<bool> drained() const;
  /// The heads that are left.
  std::vector<BlockedHead> blocked() const;

private:
  void findCandidates();

  std::vector<CpuDevice *> devices_;
  Picker picker_;
  std::vector<Candidate> candidates_;
  int64_t clock_ = 0; ///< when the last command ended, in ns
};

} // namespace braid
