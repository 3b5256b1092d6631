//===- backends/cuda/cuda_memory.h - memory of one GPU's rank and its peers -------------------===//
//
// There are three kinds: device memory that peers can map, from one of several providers
// (memory/symmetric_memory.h); private device memory; and flags in host memory that all ranks share
// and that is registered with the GPU. Memory that peers map, or that is registered, is allocated
// in regions, which are divided into blocks for programs.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "runtime/execute/block_pool.h"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace braid {

/// All memory that a rank has allocated or opened. Call closePeers() before destroying it.
class CudaMemory {
public:
  /// The group owns the shared host memory.
  explicit CudaMemory(ProcessGroup &group);
  ~CudaMemory();
  CudaMemory(const CudaMemory &) = delete;

  /// Implements Device::allocate. Symmetric memory is CUDA IPC memory.
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
  /// Implements PeerMemory::allocateFrom.
  Result<void *> allocateFrom(MemoryFrom from, int64_t bytes);
  /// Allocates host memory that the GPU writes and the host reads. fillFlags() does not change it.
  Result<void *> allocateReports(int64_t bytes);
  /// Implement Device::release, recycle and heldBytes. Regions are kept.
  void release(void *base);
  void recycle();
  int64_t heldBytes() const;
  /// Implements PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// Implements PeerMemory::open. The same handle of the same peer yields the same address.
  Result<void *> open(int64_t peer, const std::string &handle);
  /// As in PeerMemory. Regions of host memory are kept.
  std::string unusedMemory(bool isAll);
  void closeUnused(int64_t peer, llvm::StringRef unused);
  void freeUnused();
  /// Unmaps the memory of peers, who may free it when all ranks have done so.
  void closePeers();
  /// Prevents any freeing, because streams still use the memory.
  void abandon();

  /// Stores `value` into every flag that this rank owns. Callable from any thread, also while
  /// another allocates.
  void fillFlags(uint32_t value);

private:
  static constexpr size_t kAlignment = 256;
  /// A provider of memory, and this rank's regions from it.
  struct Provided {
    llvm::StringLiteral kind;                            ///< the first word of its handles
    std::unique_ptr<SymmetricMemory> provider = nullptr; ///< null until it is used
    BlockPool pool{kAlignment};
    std::set<uint32_t> wereUnused = {}; ///< unused regions at the last unusedMemory()
    std::vector<uint32_t> named = {};   ///< the regions that it named, to be freed
  };
  /// The header of a handle: its owner and its location.
  struct Place {
    int64_t rank = -1;
    uint32_t region = 0;
    size_t offset = 0;
  };
  /// Memory of a peer.
  struct Opened {
    void *base = nullptr;
    /// null if it is host memory, which is registered with the GPU if it is a peer's
    SymmetricMemory *provider = nullptr;
    bool isRegistered = false;
  };

  Provided &of(MemoryFrom from) { return provided_[from == MemoryFrom::Vmm ? 1 : 0]; }
  Result<void *> zeroed(void *base, size_t bytes) const;
  Result<void *> allocatePrivate(size_t bytes);
  Result<void *> allocateOnHost(BlockPool &pool, int64_t bytes);
  Result<Opened> openRegion(llvm::StringRef kind, int64_t peer, llvm::StringRef handle);
  static void close(const Opened &opened);

  ProcessGroup &group_;
  std::array<Provided, 2> provided_{{{"ipc"}, {"vmm"}}};
  std::mutex mutex_; ///< guards flags_, which fillFlags() may read at any time
  BlockPool flags_{kAlignment}, reports_{kAlignment}; ///< the group owns their regions
  std::unordered_map<void *, size_t> private_;        ///< sizes in bytes
  std::vector<void *> releasedPrivate_;
  size_t privateBytes_ = 0;
  bool isAbandoned_ = false;
  /// Regions of peers, by kind of memory, rank and number.
  std::map<std::tuple<std::string, int64_t, uint32_t>, Opened> opened_;
};

} // namespace braid
