//===- runtime/job/in_process_group.h - ranks that are host threads of one process ------------===//
//
// Shared by backends whose ranks are host threads of one process. The threads synchronize in
// allGather(), and share one outcome. Their state is in a job memory, as for
// ranks that are processes, so failures produce the same messages. There is no watchdog: each
// waiting host thread checks for a stalled job itself.
//
// No function is called while commands run, except isAborted(): a lock there would order the ranks'
// streams and hide a missing signal from ThreadSanitizer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/job/rank_group.h"
#include "runtime/job/stall_cause.h"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace braid {

/// Thread-safe. Must outlive all operations of its ranks.
class InProcessGroup final : public RankGroup {
public:
  /// `memory` is that of ranks on one host and must outlive the group.
  InProcessGroup(JobMemory &memory, std::chrono::milliseconds timeout);

  void abort(const Status &cause) override;

  /// Returns TimedOut if no rank makes progress for the timeout and no rank is in a command that
  /// runs without waiting.
  Status waitForDevice(int64_t rank, Drain drain) override;

  // -- See the functions of ControlPlane. --

  Result<std::vector<std::string>> allGather(int64_t rank, const std::string &mine);
  Status commit(int64_t rank);
  void tick(int64_t rank);

  // -- For backends that run commands on the host threads. --

  struct HostsCommands {
    /// Called on one host thread when the host threads of all ranks are in allGather() or
    /// waitForDevice(). Runs the commands that can run. Returns, for each rank, true if it has no
    /// commands left.
    std::function<std::vector<bool>()> run;
    /// Records in the slots the commands in which the queues wait.
    std::function<void()> showWaits;
  };
  void setHostsCommands(HostsCommands commands) { commands_ = std::move(commands); }

private:
  using Lock = std::unique_lock<std::mutex>;
  HostActivity host(int64_t rank) const;
  void setHost(int64_t rank, HostActivity activity);
  Status meet(int64_t rank, const std::string &part, uint32_t step, HostActivity activity);
  /// Blocks the host thread of `rank` until its issued commands have run or the group fails.
  Status blockUntilReleased(int64_t rank);
  bool allHostsBlocked() const;
  void runIfAllBlocked();
  void abortDeadlocked();
  /// Sleeps until `done` returns true or the job is aborted. Aborts the job if it stalls.
  void waitFor(Lock &lock, llvm::function_ref<bool()> done);
  bool isBusy(const RankSlot &slot) const;
  void abortIfStalled(StallRule &rule);

  HostsCommands commands_;

  mutable std::mutex mutex_; ///< guards the members below and the activities of the host threads
  std::condition_variable changed_;
  std::vector<uint32_t> steps_; ///< commits started, by rank; used by the rank's thread only
};

class InProcessControl : public ControlPlane {
public:
  InProcessControl(InProcessGroup &group, int64_t rank) : group_(group), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return group_.allGather(rank_, mine);
  }
  Status commit() override { return group_.commit(rank_); }
  void tick() override { group_.tick(rank_); }
  Status failure() const override { return group_.failure(); }
  void abort(const Status &cause) override { group_.abort(cause); }

private:
  InProcessGroup &group_;
  int64_t rank_;
};

} // namespace braid
