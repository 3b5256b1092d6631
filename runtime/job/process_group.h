//===- runtime/job/process_group.h - a rank in its own process --------------------------------===//
//
// Manages the connection, the shared memory and the watchdog checks of one rank whose peers are
// other processes. The job memory stores the state that all ranks share; see "Ranks as processes"
// in runtime/README.md.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"
#include "runtime/execute/block_pool.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/rank_group.h"

#include <array>
#include <map>
#include <vector>

namespace braid {

/// Only the rank's host thread may call the functions of this class, except those inherited from
/// RankGroup, which are thread-safe.
class ProcessGroup final : public RankGroup {
public:
  ProcessGroup(std::unique_ptr<Client> client, std::chrono::milliseconds timeout);
  /// Calls leave(). Unmaps this rank's memory; peers' mappings of it remain valid.
  ~ProcessGroup() override { leave(); }
  /// The watchdog calls `probe` once per period to record the device's progress in the slot. If
  /// `probe` fails, the job is aborted. `probe` must not block; in particular, it must not call
  /// abort(), which waits until the outcome is decided. setProbe() must be called before start().
  void setProbe(std::function<Status()> probe) { probe_ = std::move(probe); }

  int64_t rank() const { return client_->rank(); }
  RankSlot &slot() const { return memory().slot(rank()); }

  /// See Client::offer and Client::want. Shares a descriptor with the peers that request it by
  /// name. Offering a name again replaces the descriptor. Numeric names are reserved.
  Status offer(const std::string &name, int descriptor) { return client_->offer(name, descriptor); }
  Result<FileDescriptor> want(int64_t peer, const std::string &name) {
    return client_->want(peer, name);
  }

  // -- Memory that the peers can access. --

  /// See Device::allocate(Symmetric). The group owns the memory (zeroed, 256-byte aligned).
  Result<void *> allocateSymmetric(int64_t bytes);
  /// See PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// See Device::release and Device::recycle. allocateSymmetric() must have returned `base`.
  void releaseSymmetric(void *base) { pool_.release(base); }
  void recycleSymmetric();
  /// Returns the total size of the symmetric allocations that have not been recycled.
  int64_t symmetricBytes() const { return static_cast<int64_t>(pool_.blockBytes()); }
  /// See PeerMemory::open. `handle` must have been returned by exportMemory() on rank `peer`.
  Result<void *> open(int64_t peer, const std::string &handle);

  // -- Shutdown, in this order, after the device's worker threads have stopped. --

  enum class AfterAbort { GoesAway, Waits };
  /// Unmaps peers' memory, then waits, up to a time limit, until every rank on this host has done
  /// so, has left, or has been killed. After an abort, waits only if `afterAbort` is Waits. Then
  /// stops the watchdog. Returns true if no peer still maps this rank's memory, so that memory that
  /// must outlive the mappings can be freed. Only failure() and leave() may be called afterwards.
  bool close(AfterAbort afterAbort = AfterAbort::GoesAway);
  /// Stops the watchdog, if it is running, and disconnects. Idempotent.
  void leave();

private:
  /// A reserved address range. Only its allocated blocks are backed by pages.
  struct Region {
    FileDescriptor descriptor;
    SharedMapping address;
    size_t bytes = 0;
    bool isOffered = false;
  };

  Result<Region> makeRegion(size_t bytes) const;
  Status addRegion(size_t bytes);
  Result<SharedMapping> mapSealed(const FileDescriptor &descriptor, size_t bytes) const;
  Result<void *> import(int64_t peer, uint32_t number, size_t bytes);

  void checkHost() override { client_->abortIfHostIsGone(); }
  void watchRank() override;
  void watchHost();
  void watchProposal();
  void watchCalls();
  void watchWaits();

  std::unique_ptr<Client> client_;
  std::function<Status()> probe_;
  std::vector<Region> own_;
  BlockPool pool_; ///< allocates from the regions in own_
  std::map<std::pair<int64_t, uint32_t>, SharedMapping> imports_; ///< by rank and region number

  // Used only by the watchdog.
  /// The time at which each queue was first seen waiting for a rank that has left, or 0.
  std::array<uint64_t, kQueueSlots> peerLeftNs_{};
  uint64_t proposedNs_ = 0; ///< when an undecided abort was first seen, or 0
};

} // namespace braid
