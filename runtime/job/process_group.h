//===- runtime/job/process_group.h - a rank that is a process ---------------------------------===//
//
// A backend's means for one rank whose peers are other processes: its control plane, the memory
// that it shares with them, and a watchdog. What all ranks have in common is in the job memory; see
// "Ranks as processes" in README.md here.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/execute/block_pool.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/calls.h"
#include "runtime/job/rank_group.h"
#include "runtime/job/stall_cause.h"

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace braid {

/// One rank of a job and its watchdog. Calls are made by the rank's host thread, but for those of
/// RankGroup and abort(), which anyone may call.
class ProcessGroup final : public RankGroup, public ControlPlane {
public:
  ProcessGroup(std::unique_ptr<Client> client, std::chrono::milliseconds timeout);
  /// Disconnects, unless that is done. Frees the memory that peers may have mapped, which does
  /// them no harm.
  ~ProcessGroup() override;
  /// Starts the watchdog. Call setWake() before. A failure is that of all ranks.
  Status start();
  /// `probe` is called by the watchdog once a period, to write into the slot what a device tells of
  /// itself. A failure that it returns ends the job. It must not block, and so must not call
  /// abort(), which waits for the decision. Call before start().
  void setProbe(std::function<Status()> probe) { probe_ = std::move(probe); }

  int64_t rank() const override { return client_->rank(); }
  int64_t size() const override { return RankGroup::size(); }
  RankSlot &slot() const { return memory().slot(rank()); }

  /// As Client::offer and want: hands a descriptor to those peers that are told its name. A name
  /// that was offered before stands for the new one from now on. No name is a number.
  Status offer(const std::string &name, int descriptor) { return client_->offer(name, descriptor); }
  Result<FileDescriptor> want(int64_t peer, const std::string &name);

  // -- RankGroup. --

  bool spansProcesses() const override { return true; }
  void abort(const Status &cause) override;
  Status failure() const override { return RankGroup::failure(); }
  Result<void *> allocateSymmetric(int64_t rank, int64_t bytes) override;
  Result<std::string> exportMemory(int64_t rank, void *base) override;
  void releaseSymmetric(int64_t rank, void *base) override;
  void recycleSymmetric(int64_t rank) override;
  int64_t symmetricBytes(int64_t rank) override;
  Result<void *> open(int64_t peer, const std::string &handle) override;
  /// Standing still is the watchdog's business. After an abort, a command that never ends is waited
  /// for only for a grace period; the Status says so then.
  Status waitForDevice(int64_t rank, Drain drain) override;
  /// waitForDevice() has given up.
  bool isStuck() const { return isStuck_; }

  // -- ControlPlane. --

  Result<std::vector<std::string>> allGather(std::string mine) override;
  Status commit() override;
  void tick() override;
  void noteCall(JobCall call, uint32_t program) override { braid::noteCall(slot(), call, program); }
  void noteUnseenRuns() override { slot().hasUnseenRuns.store(1, std::memory_order_relaxed); }
  CommonClock commonClock() const override;

  // -- The end, in this order; the device's workers have stopped. --

  enum class AfterAbort { GoesAway, Waits };
  /// Unmaps what peers exported, and waits until all ranks have done so, or have gone, or have been
  /// killed, or take too long; after an abort, only if asked to. Then ends the watchdog. True if no
  /// rank has anything of ours mapped: what peers must not outlive can be freed. Nothing but
  /// failure() and leave() may be called after.
  bool close(AfterAbort afterAbort = AfterAbort::GoesAway);
  /// Ends the watchdog, if it runs, and disconnects. Idempotent.
  void leave();

  /// A wait for this rank's own workers lasts this long after an abort. Shorter than what the host
  /// grants before it kills, so that the rank can say what has become of it.
  static constexpr std::chrono::milliseconds kGrace{700};

private:
  /// Sets the activity of the host thread as long as it lives.
  class Doing;
  /// Memory that more than one process has mapped.
  struct Mapping {
    FileDescriptor descriptor; ///< our own memory
    void *address = nullptr;
    size_t bytes = 0;
    bool isOffered = false;
  };

  Result<Mapping> makeShared(size_t bytes) const;
  Status addRegion(size_t bytes);
  Result<Mapping> mapShared(FileDescriptor descriptor, size_t bytes) const;
  Result<void *> import(int64_t peer, uint32_t number, size_t bytes);
  void setActivity(HostActivity activity);

  void endWatchdog();
  void watch();
  void watchDevice();
  void watchHost();
  void watchStall();
  void watchProposal();
  void watchCalls();
  void watchWaits();

  std::unique_ptr<Client> client_;
  const std::chrono::milliseconds period_; ///< the watchdog's
  std::function<Status()> probe_;

  // The host thread's; the watchdog looks at some of it.
  std::atomic<uint32_t> steps_{0}; ///< commits begun
  std::atomic<bool> isClosing_{false};
  bool isStuck_ = false; ///< a worker did not come back after an abort
  /// Addresses; the kernel has pages only where blocks are.
  std::vector<Mapping> own_;
  BlockPool pool_;                                          ///< its regions are own_
  std::map<std::pair<int64_t, uint32_t>, Mapping> imports_; ///< by rank and number

  // The watchdog's.
  StallRule stallRule_;
  /// Since when each queue waits for a rank that has left; 0: it does not.
  std::array<uint64_t, kQueueSlots> peerLeftNs_{};
  uint64_t proposedNs_ = 0; ///< since when an abort waits to be decided; 0: none does

  std::thread watchdog_;
  std::mutex endMutex_;
  std::condition_variable endChanged_;
  bool isEnding_ = false; ///< under endMutex_
};

} // namespace braid
