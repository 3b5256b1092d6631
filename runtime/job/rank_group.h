//===- runtime/job/rank_group.h - the ranks of a job in this process --------------------------===//
//
// Either all ranks of the job are threads of this process, or this process is a single rank
// (ProcessGroup). In both cases, a job memory stores their state, so that failures produce the same
// messages, and one thread of the process, the watchdog, detects a stalled job.
//
// Only isAborted(), a single relaxed load, is called while commands run. Stronger synchronization
// would order the ranks' streams and hide missing signals from ThreadSanitizer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/stall_cause.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace braid {

/// A job's ranks in this process. Thread-safe. Must outlive all operations of its ranks. Every
/// `rank` argument must be a rank in this process.
class RankGroup {
public:
  /// Creates a group for ranks that are all threads of this process. `memory` must belong to a job
  /// on a single host, and must outlive the group.
  RankGroup(JobMemory &memory, std::chrono::milliseconds timeout)
      : RankGroup(memory, timeout, memory.allRanks(), /*areThreads=*/true) {}
  virtual ~RankGroup() { stop(); }
  /// Starts the watchdog, or aborts the job if that fails. setWake() must be called first. Must be
  /// called at most once.
  Status start();
  /// Stops the watchdog. Must be called before destroying anything that the wake function uses.
  /// Idempotent.
  void stop() { watchdog_.stop(); }

  int64_t size() const { return memory_.ranks(); }
  Ranks ranksHere() const { return ranksHere_; }
  /// The state of the ranks and the outcome of the job.
  JobMemory &memory() const { return memory_; }
  /// A job that makes no progress for this long fails with TimedOut.
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// See Cluster::setPlans and Cluster::forgetPlans.
  void setPlans(llvm::ArrayRef<Plan> plans) { plans_.add(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) { plans_.remove(plans); }
  /// The maximum time for which a waiting thread sleeps before it rechecks its condition.
  std::chrono::milliseconds slice() const {
    using std::chrono::milliseconds;
    return std::clamp(timeout_ / 8, milliseconds(1), milliseconds(20));
  }

  // -- Failure. --

  bool isAborted() const { return memory_.isAborted(); }
  /// Fails the job with `cause`, unless it has already failed, and wakes this process's waiters.
  void abort(const Status &cause);
  /// Returns ok, or the cause of the abort.
  Status failure() const { return memory_.failure(); }
  /// Sets a function that wakes threads sleeping outside this class. It is called after an abort.
  void setWake(std::function<void()> wake) { wake_ = std::move(wake); }

  // -- Called by a rank's host thread; see ControlPlane. --

  ControlPlane &control(int64_t rank) {
    return *controls_[static_cast<size_t>(rank - ranksHere_.first)];
  }
  /// See Device::synchronize. Blocks until the device is done, even after an abort, because buffers
  /// must not be freed while worker threads use them. A rank in its own process waits at most
  /// kGrace after an abort; if a command is then still running, the returned Status reports this.
  /// Needs no other timeout, because the watchdog detects a stalled job. `isDone` returns
  /// true once every issued command has completed or been dropped; `sleep` sleeps until isDone()
  /// may have become true, but at most for the given time.
  Status waitForDevice(int64_t rank, llvm::function_ref<bool()> isDone,
                       llvm::function_ref<void(std::chrono::milliseconds)> sleep);
  /// The time limit for worker threads to finish after an abort. Shorter than the time after which
  /// the launcher kills the rank, so that the rank can still report its state.
  static constexpr std::chrono::milliseconds kGrace{700};
  /// Returns true after waitForDevice() has given up on a command.
  bool isStuck() const { return isStuck_; }

  /// For backends that run commands on the host threads. waitForDevice() is then collective: once
  /// all ranks have called it, one rank's host thread calls `run`, which executes all commands that
  /// are not blocked and returns true if none are left. `showWaits` records in the slots which
  /// command blocks each queue.
  void setHostsCommands(std::function<bool()> run, std::function<void()> showWaits) {
    runCommands_ = std::move(run);
    showWaits_ = std::move(showWaits);
  }

protected:
  /// `memory` must outlive the group.
  RankGroup(JobMemory &memory, std::chrono::milliseconds timeout, Ranks ranksHere, bool areThreads);
  /// Called by a host thread that is about to wait for other ranks.
  virtual void checkHost() {}
  /// Called by the watchdog once per period, even after an abort. Must not block; in particular, it
  /// must not call abort(), which waits until the outcome is decided.
  virtual void watchRank() {}

  KnownPlans plans_;
  /// Set before the host thread waits for its peers at shutdown, which does not count as a stall.
  std::atomic<bool> isClosing_{false};

private:
  class Control;
  void runTogether();
  void wakeAll();
  void watch();
  void watchStall();
  bool isBusy(const RankSlot &slot) const;

  JobMemory &memory_;
  const std::chrono::milliseconds timeout_, period_;
  const Ranks ranksHere_;
  const bool areThreads_;
  std::vector<std::unique_ptr<ControlPlane>> controls_;
  std::function<void()> wake_;
  std::function<bool()> runCommands_; ///< null if worker threads run the commands
  std::function<void()> showWaits_;
  bool isStuck_ = false; ///< a command did not finish after an abort

  std::mutex mutex_; ///< guards arrived_ and timesRun_
  std::condition_variable changed_;
  int64_t arrived_ = 0;
  uint64_t timesRun_ = 0;

  StallRule stallRule_; ///< used by the watchdog only
  ServiceThread watchdog_;
};

/// Returns BadInput if the number of ranks or the timeout is unsupported. `kind` names the ranks in
/// messages, for example "threads of a process".
Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout);

} // namespace braid
