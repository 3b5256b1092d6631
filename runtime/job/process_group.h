//===- runtime/job/process_group.h - a rank that is a process ---------------------------------===//
//
// The control plane, the shared memory and the watchdog of one rank whose peers are other
// processes. State that all ranks share is in the job memory; see "Ranks as processes" in
// runtime/README.md.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/execute/block_pool.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/calls.h"
#include "runtime/job/rank_group.h"
#include "runtime/job/stall_cause.h"

#include "llvm/ADT/ScopeExit.h"

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace braid {

/// One rank of a job and its watchdog. Only the rank's host thread calls its functions, except
/// those of RankGroup and abort(), which are thread-safe.
class ProcessGroup final : public RankGroup, public ControlPlane {
public:
  ProcessGroup(std::unique_ptr<Client> client, std::chrono::milliseconds timeout);
  /// Disconnects unless that has been done. Unmaps its memory; the mappings of peers remain valid.
  ~ProcessGroup() override;
  /// Starts the watchdog. setWake() must be called first. A failure aborts the job.
  Status start();
  /// The watchdog calls `probe` once per period to record the device's progress in the slot. A
  /// failure that `probe` returns aborts the job. `probe` must not block; in particular, it must
  /// not call abort(), which waits for the decision. setProbe() must be called before start().
  void setProbe(std::function<Status()> probe) { probe_ = std::move(probe); }

  int64_t rank() const override { return client_->rank(); }
  int64_t size() const override { return RankGroup::size(); }
  RankSlot &slot() const { return memory().slot(rank()); }

  /// See Client::offer and Client::want: shares a descriptor with the peers that know its name. A
  /// repeated offer replaces the descriptor. Numeric names are reserved.
  Status offer(const std::string &name, int descriptor) { return client_->offer(name, descriptor); }
  Result<FileDescriptor> want(int64_t peer, const std::string &name);

  // -- Memory that the peers can access. --

  /// See Device::allocate(Symmetric): zeroed, aligned to 256 bytes, owned by the group.
  Result<void *> allocateSymmetric(int64_t bytes);
  /// See PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// See Device::release and Device::recycle. `base` was returned by allocateSymmetric().
  void releaseSymmetric(void *base) { pool_.release(base); }
  void recycleSymmetric();
  /// Returns the bytes of the symmetric allocations that have not been recycled.
  int64_t symmetricBytes() const { return static_cast<int64_t>(pool_.blockBytes()); }
  /// See PeerMemory::open. `handle` was returned by exportMemory().
  Result<void *> open(int64_t peer, const std::string &handle);

  // -- RankGroup. --

  void abort(const Status &cause) override;
  Status failure() const override { return RankGroup::failure(); }
  /// The watchdog detects a stalled job. After an abort, waits for running commands only for
  /// kGrace; if one is still running then, the returned Status says so.
  Status waitForDevice(int64_t rank, Drain drain) override;
  /// True after waitForDevice() has given up on a command.
  bool isStuck() const { return isStuck_; }

  // -- ControlPlane. --

  Result<std::vector<std::string>> allGather(std::string mine) override;
  Status commit() override;
  void tick() override;
  void noteCall(JobCall call, uint32_t program) override { braid::noteCall(slot(), call, program); }
  void noteUnseenRuns() override { slot().hasUnseenRuns.store(1, std::memory_order_relaxed); }

  // -- Shutdown, in this order, after the device's workers have stopped. --

  enum class AfterAbort { GoesAway, Waits };
  /// Unmaps the memory of peers, and waits until every rank has done so, left or been killed, or
  /// until a time limit. After an abort, waits only with AfterAbort::Waits. Then stops the
  /// watchdog. Returns true if no peer maps this rank's memory any longer, so that memory that must
  /// outlive the mappings can be freed. Only failure() and leave() may be called afterwards.
  bool close(AfterAbort afterAbort = AfterAbort::GoesAway);
  /// Stops the watchdog if it runs, and disconnects. Idempotent.
  void leave();

  /// The time limit of a wait for this rank's workers after an abort. It is shorter than the time
  /// after which the host kills the rank, so that the rank can report its state.
  static constexpr std::chrono::milliseconds kGrace{700};

private:
  /// Memory that several processes map.
  struct Mapping {
    FileDescriptor descriptor; ///< set for own_ only
    void *address = nullptr;
    size_t bytes = 0;
    bool isOffered = false;
  };

  Result<Mapping> makeShared(size_t bytes) const;
  Status addRegion(size_t bytes);
  Result<Mapping> mapShared(FileDescriptor descriptor, size_t bytes) const;
  Result<void *> import(int64_t peer, uint32_t number, size_t bytes);
  void setActivity(HostActivity activity);
  /// Sets the activity of the host thread until the result is destroyed.
  auto doing(HostActivity activity) {
    setActivity(activity);
    return llvm::make_scope_exit([this] { setActivity(HostActivity::OwnCode); });
  }

  void endWatchdog();
  void watch();
  void watchDevice();
  void watchHost();
  void watchStall();
  void watchProposal();
  void watchCalls();
  void watchWaits();

  std::unique_ptr<Client> client_;
  const std::chrono::milliseconds period_;
  std::function<Status()> probe_;

  // Written by the host thread; the watchdog reads the atomics.
  std::atomic<uint32_t> steps_{0}; ///< commits started
  std::atomic<bool> isClosing_{false};
  bool isStuck_ = false; ///< a worker did not finish after an abort
  /// Reserved address ranges; only allocated blocks have pages.
  std::vector<Mapping> own_;
  BlockPool pool_;                                          ///< allocates from the regions in own_
  std::map<std::pair<int64_t, uint32_t>, Mapping> imports_; ///< by rank and number

  // For the watchdog only.
  StallRule stallRule_;
  /// When each queue began to wait for a rank that has left; 0 if it does not.
  std::array<uint64_t, kQueueSlots> peerLeftNs_{};
  uint64_t proposedNs_ = 0; ///< when an undecided abort was proposed; 0 if there is none

  std::thread watchdog_;
  std::mutex endMutex_;
  std::condition_variable endChanged_;
  bool isEnding_ = false; ///< guarded by endMutex_
};

} // namespace braid
