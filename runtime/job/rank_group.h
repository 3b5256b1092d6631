//===- runtime/job/rank_group.h - what a device knows about its ranks -------------------------===//
//
// The common interface of ranks that are threads of one process (InProcessGroup) and of a rank that
// is a process (ProcessGroup): abort and its cause, and waits of a host thread for its device.
//
// No function is called while commands run, except isAborted(), which is one relaxed load. Stronger
// synchronization would order the ranks' streams and hide a missing signal from ThreadSanitizer.
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

/// Thread-safe. Must outlive all operations of its ranks. `rank` must be a rank of this process.
class RankGroup {
public:
  virtual ~RankGroup() = default;

  int64_t size() const { return memory_.ranks(); }
  /// The state of the ranks and the outcome of the job.
  JobMemory &memory() const { return memory_; }
  /// A job that makes no progress for this long fails with TimedOut.
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// See Cluster::setPlans and Cluster::forgetPlans.
  void setPlans(llvm::ArrayRef<Plan> plans) {
    std::lock_guard lock(plansMutex_);
    plans_.add(plans);
  }
  void forgetPlans(llvm::ArrayRef<Plan> plans) {
    std::lock_guard lock(plansMutex_);
    plans_.remove(plans);
  }
  /// The longest time for which a wait sleeps before it checks its limits again.
  std::chrono::milliseconds slice() const {
    using std::chrono::milliseconds;
    return std::clamp(timeout_ / 8, milliseconds(1), milliseconds(20));
  }

  // -- Failure. --

  bool isAborted() const { return memory_.isAborted(); }
  /// Makes `cause` the failure of all ranks unless the job has already failed, and releases all
  /// waits in this process.
  virtual void abort(const Status &cause) = 0;
  /// Returns ok, or the cause of the abort.
  Status failure() const { return memory_.failure(); }
  /// Sets a function that is called after an abort to wake threads that sleep outside this class.
  /// Must be called before the ranks start.
  void setWake(std::function<void()> wake) { wake_ = std::move(wake); }

  // -- Waiting. --

  struct Drain {
    /// Returns true when every issued command has completed or been dropped.
    llvm::function_ref<bool()> isDone;
    /// Sleeps until isDone() may have become true, at most for the given time.
    llvm::function_ref<void(std::chrono::milliseconds)> sleep;
  };
  /// See Device::synchronize: blocks until the device is done, even after an abort, because the
  /// caller must not free its buffers while workers use them.
  virtual Status waitForDevice(int64_t rank, Drain drain) = 0;

protected:
  /// `memory` must outlive the group.
  RankGroup(JobMemory &memory, std::chrono::milliseconds timeout)
      : memory_(memory), timeout_(timeout) {}
  void wakeOthers() const {
    if (wake_)
      wake_();
  }
  /// Returns the result of committing `step`. `met` is the result of the rank's wait for the
  /// others; the outcome in the job memory takes precedence over it.
  Status committed(uint32_t step, const Status &met) {
    if (memory_.committed() < step)
      abort(met.isOk() ? Status(StatusCode::BadInput, "expected all ranks to commit, but another "
                                                      "is in another call")
                       : met);
    return memory_.committed() >= step ? Status::ok() : failure();
  }

  std::mutex plansMutex_;
  KnownPlans plans_; ///< guarded by plansMutex_

private:
  JobMemory &memory_;
  const std::chrono::milliseconds timeout_;
  std::function<void()> wake_;
};

/// Returns BadInput for an unsupported number of ranks or timeout. `kind` names the ranks in the
/// message, for example "threads of a process".
Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout);

} // namespace braid
