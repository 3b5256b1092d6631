//===- runtime/in_process_group.h - ranks that are host threads of one process ----------------===//
//
// What backends whose ranks live in one process have in common: the ranks' host threads meet in
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

#include "runtime/backend.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace braid {

/// How far a group has come. Equal counts at two times and not `busy`: it stood still between.
struct GroupProgress {
  uint64_t count = 0;
  bool busy = false; ///< something runs, or is about to, that needs no one else to end
};

/// Where a rank's host thread is.
enum class HostState : uint8_t {
  Running,       ///< it may issue commands
  InAllGather,   ///< until all have come
  InSynchronize, ///< until its device is done
};

/// Refuses options that no group of threads can have.
Status checkInProcess(const ClusterOptions &options);

/// Thread-safe. Outlives what the ranks do with it.
class InProcessGroup {
public:
  InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout);

  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// How long a wait may sleep before it looks at its bounds again.
  std::chrono::milliseconds slice() const;

  // -- Failure. --

  bool isAborted() const { return aborted_.load(std::memory_order_relaxed); }
  /// Makes `cause` the group's failure, unless it has one, and releases everything that waits.
  void abort(const Status &cause);
  /// Ok, or the cause of the abort.
  Status failure() const;
  /// `wake` is called after an abort, to release what sleeps outside of this class. Set it before
  /// the ranks start.
  void setWake(std::function<void()> wake) { wake_ = std::move(wake); }

  // -- Meeting. --

  /// As Transport::allGather.
  Result<std::vector<std::string>> allGather(int64_t rank, std::string mine);

  /// A handle for memory at `base`, which belongs to `rank`.
  std::string exportAddress(int64_t rank, void *base);
  /// The address that `peer` exported as `handle`.
  Result<void *> open(int64_t peer, const std::string &handle) const;

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

  HostState host(int64_t rank) const { return hosts_[rank].load(std::memory_order_relaxed); }
  void setHost(int64_t rank, HostState state) {
    hosts_[rank].store(state, std::memory_order_relaxed);
  }

  // -- For backends that run commands on the hosts' own threads. --

  /// Called, on one of them, when the host threads of all ranks are in allGather() or
  /// blockUntilReleased(). Returns for each rank whether it may leave the latter: at least one, or
  /// the group has been aborted.
  using AllBlocked = std::function<std::vector<bool>()>;
  void setAllBlocked(AllBlocked handler) { allBlocked_ = std::move(handler); }
  /// Blocks `rank`'s host thread until the handler lets it go, or the group fails.
  Status blockUntilReleased(int64_t rank);

private:
  using Lock = std::unique_lock<std::mutex>;
  bool allHostsBlocked() const;
  void runIfAllBlocked();
  void finishGather();
  /// Sleeps until `done`, an abort, or a standstill, for which `headline` finds words.
  void waitFor(Lock &lock, llvm::function_ref<bool()> done,
               llvm::function_ref<std::string()> headline);
  /// "rank 1" or "ranks 1, 3": those of which `isMissing` is true.
  std::string name(llvm::function_ref<bool(HostState)> isMissing) const;

  const std::chrono::milliseconds timeout_;
  std::function<void()> wake_;
  std::function<GroupProgress()> probe_;
  std::function<std::string(std::string)> reporter_;
  AllBlocked allBlocked_;

  mutable std::mutex failureMutex_; ///< taken last
  Status failure_;
  std::atomic<bool> aborted_{false};

  mutable std::mutex mutex_; ///< guards what follows
  std::condition_variable changed_;
  std::vector<std::string> texts_;   ///< of the round that is being gathered
  std::vector<std::string> results_; ///< of the last complete round
  int64_t arrived_ = 0;
  uint64_t round_ = 0;
  struct Export {
    int64_t rank;
    void *base;
  };
  std::map<std::string, Export> exports_;

  std::vector<std::atomic<HostState>> hosts_; ///< written under mutex_ by what is in this class
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

/// A rank's Transport over an InProcessGroup.
class InProcessTransport : public Transport {
public:
  InProcessTransport(InProcessGroup &group, int64_t rank) : group_(group), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return group_.allGather(rank_, std::move(mine));
  }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return group_.open(peer, handle);
  }
  Status commit() override { return group_.allGather(rank_, "").status(); }
  void abort(const Status &cause) override { group_.abort(cause); }

private:
  InProcessGroup &group_;
  int64_t rank_;
};

} // namespace braid
