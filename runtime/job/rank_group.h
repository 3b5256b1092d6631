//===- runtime/job/rank_group.h - what a device knows about its ranks -------------------------===//
//
// The common ground of ranks that are threads of one process (InProcessGroup) and of a rank that is
// a process of its own (ProcessGroup): the mark of an abort and its cause, memory that peers can
// reach, and how a host thread waits for its device.
//
// Nothing here is called while commands run, except isAborted(): one relaxed load. Anything more
// would order the ranks' streams, and hide a missing signal from ThreadSanitizer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>

namespace braid {

/// Thread-safe. Outlives what the ranks do with it. `rank` is always one that lives in this
/// process.
class RankGroup {
public:
  virtual ~RankGroup() = default;

  int64_t size() const { return memory_.ranks(); }
  /// It says what the ranks do, and how the job ended.
  JobMemory &memory() const { return memory_; }
  /// No progress for this long is TimedOut.
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// As Cluster::setPlans and forgetPlans.
  void setPlans(llvm::ArrayRef<Plan> plans) {
    std::lock_guard lock(plansMutex_);
    plans_.add(plans);
  }
  void forgetPlans(llvm::ArrayRef<Plan> plans) {
    std::lock_guard lock(plansMutex_);
    plans_.remove(plans);
  }
  /// The longest sleep of a wait between two looks at its bounds.
  std::chrono::milliseconds slice() const {
    using std::chrono::milliseconds;
    return std::clamp(timeout_ / 8, milliseconds(1), milliseconds(20));
  }
  /// Flags in symmetric memory are written by other processes.
  virtual bool spansProcesses() const = 0;

  // -- Failure. --

  bool isAborted() const { return memory_.isAborted(); }
  /// Makes `cause` the failure of all ranks, unless they have one, and releases everything that
  /// waits in this process.
  virtual void abort(const Status &cause) = 0;
  /// Ok, or the cause of the abort.
  Status failure() const { return memory_.failure(); }
  /// `wake` is called after an abort, to release what sleeps outside of this class. Set it before
  /// the ranks start.
  void setWake(std::function<void()> wake) { wake_ = std::move(wake); }

  // -- Memory. --

  /// As Device::allocate(Symmetric): zeroed, aligned to 256 bytes, the group's.
  virtual Result<void *> allocateSymmetric(int64_t rank, int64_t bytes) = 0;
  /// As PeerMemory::exportMemory.
  virtual Result<std::string> exportMemory(int64_t rank, void *base) = 0;
  /// As Device::release and Device::recycle, of what came from allocateSymmetric().
  virtual void releaseSymmetric(int64_t rank, void *base) = 0;
  virtual void recycleSymmetric(int64_t rank) = 0;
  /// Bytes of what came from there, and has not been recycled.
  virtual int64_t symmetricBytes(int64_t rank) = 0;
  /// As PeerMemory::open, of what came from exportMemory().
  virtual Result<void *> open(int64_t peer, const std::string &handle) = 0;

  // -- Waiting. --

  /// A rank's device, as its host thread waits for it.
  struct Drain {
    /// Everything issued is done, or dropped.
    llvm::function_ref<bool()> isDone;
    /// Sleeps until that may have become true, at most for the time given.
    llvm::function_ref<void(std::chrono::milliseconds)> sleep;
  };
  /// As Device::synchronize: blocks until the device is done, also after an abort, because workers
  /// must have let go of the caller's buffers before it may free them.
  virtual Status waitForDevice(int64_t rank, Drain drain) = 0;

protected:
  /// `memory` outlives the group.
  RankGroup(JobMemory &memory, std::chrono::milliseconds timeout)
      : memory_(memory), timeout_(timeout) {}
  void wakeOthers() const {
    if (wake_)
      wake_();
  }
  /// The result of a commit: a rank has done `step` and has met the others, or has not. The word in
  /// the job memory has the last say.
  Status committed(uint32_t step, const Status &met) {
    if (memory_.committed() < step)
      abort(met.isOk() ? Status(StatusCode::BadInput, "expected all ranks to commit, but another "
                                                      "is in another call")
                       : met);
    return memory_.committed() >= step ? Status::ok() : failure();
  }

  std::mutex plansMutex_;
  KnownPlans plans_; ///< under plansMutex_

private:
  JobMemory &memory_;
  const std::chrono::milliseconds timeout_;
  std::function<void()> wake_;
};

/// BadInput for ranks and timeouts that no group can have. `kind`: "threads of a process".
Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout);

} // namespace braid
