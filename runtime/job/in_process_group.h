//===- runtime/job/in_process_group.h - ranks that are host threads of one process ------------===//
//
// The common part of backends whose ranks live in one process: the ranks' host threads meet in
// allGather(), hand each other addresses, and share one outcome. What they do is in a job memory,
// as if they were processes, so that the messages about a failure are the same. The ranks have no
// watchdog: a host thread that waits looks itself whether the job stands still.
//
// Nothing here is called while commands run, except isAborted(): a lock there would order the
// ranks' streams, and hide a missing signal from ThreadSanitizer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/job/rank_group.h"
#include "runtime/job/stall_cause.h"

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace braid {

/// Thread-safe. Outlives what the ranks do with it.
class InProcessGroup final : public RankGroup {
public:
  /// `memory` is of ranks of one host, and outlives the group.
  InProcessGroup(JobMemory &memory, std::chrono::milliseconds timeout);

  bool spansProcesses() const override { return false; }
  void abort(const Status &cause) override;

  Result<void *> allocateSymmetric(int64_t rank, int64_t bytes) override;
  Result<std::string> exportMemory(int64_t rank, void *base) override;
  void releaseSymmetric(int64_t rank, void *base) override;
  void recycleSymmetric(int64_t rank) override;
  int64_t symmetricBytes(int64_t rank) override;
  Result<void *> open(int64_t peer, const std::string &handle) override;

  /// TimedOut if no rank makes progress for the timeout, and none is in a command that does not
  /// wait.
  Status waitForDevice(int64_t rank, Drain drain) override;

  // -- As the functions of ControlPlane. --

  Result<std::vector<std::string>> allGather(int64_t rank, const std::string &mine);
  Status commit(int64_t rank);
  void tick(int64_t rank);

  // -- For backends that run commands on the hosts' own threads. --

  struct HostsCommands {
    /// Called, on one of them, when the host threads of all ranks are in allGather() or
    /// waitForDevice(). Runs what can run. Returns for each rank whether nothing of it is left.
    std::function<std::vector<bool>()> run;
    /// Writes into the slots which commands the queues wait in.
    std::function<void()> showWaits;
  };
  void setHostsCommands(HostsCommands commands) { commands_ = std::move(commands); }
  /// Needs these: as if the host threads of all ranks called waitForDevice(), and next allGather().
  Status waitForAllDevices();

private:
  using Lock = std::unique_lock<std::mutex>;
  HostActivity host(int64_t rank) const;
  void setHost(int64_t rank, HostActivity activity);
  Status meet(int64_t rank, const std::string &part, uint32_t step, HostActivity activity);
  /// Blocks `rank`'s host thread until what it has issued has run, or the group fails.
  Status blockUntilReleased(int64_t rank);
  bool allHostsBlocked() const;
  void runIfAllBlocked();
  void abortDeadlocked();
  /// Sleeps until `done`, an abort, or a standstill, which it makes one.
  void waitFor(Lock &lock, llvm::function_ref<bool()> done);
  bool isBusy(const RankSlot &slot) const;
  void abortIfStalled(StallRule &rule);

  HostsCommands commands_;

  mutable std::mutex mutex_; ///< guards what follows, and the host threads' activities
  std::condition_variable changed_;
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Allocation {
    int64_t rank;
    size_t bytes;
    std::unique_ptr<void, Free> memory;
    bool isReleased = false;
  };
  std::map<const void *, Allocation> allocations_;
  std::vector<uint32_t> steps_; ///< commits begun by each rank; its own thread's
};

/// A rank's ControlPlane over an InProcessGroup.
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
