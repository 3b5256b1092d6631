//===- runtime/job/in_process_group.h - ranks that are host threads of one process ------------===//
//
// The common part of backends whose ranks live in one process: the ranks' host threads meet in
// allGather(), hand each other addresses, and share one outcome. The first failure of any rank
// becomes the failure of all; the mark "aborted" is set before anything that waits is released, so
// that what looks at the mark after a wait never mistakes an aborted run for a finished one.
//
// Nothing here is called while commands run, except isAborted() and the relaxed reads of host
// states: a lock there would order the ranks' streams, and hide a missing signal from
// ThreadSanitizer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/execute/rank_group.h"

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace braid {

/// The progress of a group. Equal counts at two times and not `busy`: it stood still between.
struct GroupProgress {
  uint64_t count = 0;
  bool busy = false; ///< something runs, or is about to, that needs no one else to end
};

/// Refuses options that no group of threads can have.
Status checkInProcess(const ClusterOptions &options);

/// Thread-safe. Outlives what the ranks do with it.
class InProcessGroup final : public RankGroup {
public:
  InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout);

  bool spansProcesses() const override { return false; }

  void abort(const Status &cause) override;
  Status failure() const override;

  Result<void *> allocateSymmetric(int64_t rank, int64_t bytes) override;
  Result<std::string> exportMemory(int64_t rank, void *base) override;
  void releaseSymmetric(int64_t rank, void *base) override;
  void recycleSymmetric(int64_t rank) override;
  int64_t symmetricBytes(int64_t rank) override;
  Result<void *> open(int64_t peer, const std::string &handle) override;

  /// TimedOut if no rank makes progress for the timeout.
  Status waitForDevice(int64_t rank, Drain drain) override;

  // -- Meeting. --

  /// As ControlPlane::allGather.
  Result<std::vector<std::string>> allGather(int64_t rank, std::string mine);

  /// As ControlPlane::commit: the step counts for all ranks from the moment at which the first of
  /// them knows that all have come, if none has failed by then.
  Status commit(int64_t rank);

  // -- Progress. --

  /// `probe` tells how far the ranks' devices have come. Set it before the ranks start.
  void setProbe(std::function<GroupProgress()> probe) { probe_ = std::move(probe); }
  GroupProgress progress() const;
  /// `reporter` adds to a headline what the ranks' devices wait for. Set it before the ranks start.
  void setReporter(std::function<std::string(std::string)> reporter) {
    reporter_ = std::move(reporter);
  }
  /// Aborts because the group has stood still: TimedOut, with the headline and what is known.
  void abortStalled(std::string headline);

  /// As ControlPlane::tick.
  void tick() { arrivals_.fetch_add(1, std::memory_order_relaxed); }

  /// OwnCode, InAllGather or InSynchronize.
  HostActivity host(int64_t rank) const { return hosts_[rank].load(std::memory_order_relaxed); }

  // -- For backends that run commands on the hosts' own threads. --

  /// Called, on one of them, when the host threads of all ranks are in allGather() or
  /// waitForDevice(). Returns for each rank whether it may leave the latter: at least one, or the
  /// group has been aborted.
  using AllBlocked = std::function<std::vector<bool>()>;
  void setAllBlocked(AllBlocked handler) { allBlocked_ = std::move(handler); }
  /// Needs that handler: as if the host threads of all ranks called waitForDevice(), and next
  /// allGather().
  Status waitForAllDevices();

private:
  using Lock = std::unique_lock<std::mutex>;
  void setHost(int64_t rank, HostActivity activity) {
    hosts_[rank].store(activity, std::memory_order_relaxed);
  }
  /// Blocks `rank`'s host thread until the handler lets it go, or the group fails.
  Status blockUntilReleased(int64_t rank);
  bool allHostsBlocked() const;
  void runIfAllBlocked();
  void finishGather();
  /// Sleeps until `done`, an abort, or a standstill, for which `headline` finds words.
  void waitFor(Lock &lock, llvm::function_ref<bool()> done,
               llvm::function_ref<std::string()> headline);
  /// "rank 1" or "ranks 1, 3": those of which `isMissing` is true.
  std::string name(llvm::function_ref<bool(HostActivity)> isMissing) const;

  std::function<GroupProgress()> probe_;
  std::function<std::string(std::string)> reporter_;
  AllBlocked allBlocked_;

  mutable std::mutex failureMutex_; ///< taken last
  Status failure_;
  uint32_t committed_ = 0;           ///< steps; under failureMutex_
  std::atomic<uint64_t> outcome_{0}; ///< kAbortedMark, or 0

  mutable std::mutex mutex_; ///< guards what follows
  std::condition_variable changed_;
  std::vector<std::string> texts_;   ///< parts of the current round
  std::vector<std::string> results_; ///< parts of the last complete round
  int64_t arrived_ = 0;
  uint64_t round_ = 0;
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Allocation {
    size_t bytes;
    std::unique_ptr<void, Free> memory;
  };
  /// The allocations of a rank by address, and those that its programs have released.
  struct OfRank {
    std::map<const void *, Allocation> allocations;
    std::vector<const void *> released;
    size_t bytes = 0; ///< sum over all allocations
  };
  std::vector<OfRank> memory_;
  std::vector<uint32_t> steps_; ///< commits begun by each rank; its own thread's

  std::vector<std::atomic<HostActivity>> hosts_; ///< written under mutex_ by what is in this class
  std::atomic<uint64_t> arrivals_{0};
};

/// Tells when a group has stood still for its timeout. One object for each wait.
class StallClock {
public:
  explicit StallClock(const InProcessGroup &group);
  /// Ask again and again while waiting.
  bool isExpired();

private:
  const InProcessGroup &group_;
  uint64_t lastCount_;
  std::chrono::steady_clock::time_point lastMove_;
};

/// A rank's ControlPlane over an InProcessGroup.
class InProcessControl : public ControlPlane {
public:
  InProcessControl(InProcessGroup &group, int64_t rank) : group_(group), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return group_.allGather(rank_, std::move(mine));
  }
  Status commit() override { return group_.commit(rank_); }
  void tick() override { group_.tick(); }
  Status failure() const override { return group_.failure(); }
  void abort(const Status &cause) override { group_.abort(cause); }

private:
  InProcessGroup &group_;
  int64_t rank_;
};

} // namespace braid
