//===- backends/cuda/cuda_memory.h - memory of a rank and of its peers ------------------------===//
//
// There are three kinds of memory: device memory that peers can map, from one of several providers
// (memory/symmetric_memory.h); private device memory; and flags in host memory that is shared by
// all ranks and registered with the GPU. Memory that is mapped by peers or registered with the GPU
// is allocated in regions, which are divided into blocks for programs.
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

/// All memory that a rank has allocated or opened.
class CudaMemory {
public:
  /// `group` owns the shared host memory.
  explicit CudaMemory(ProcessGroup &group);
  ~CudaMemory();
  CudaMemory(const CudaMemory &) = delete;

  /// Implements Device::allocate. Uses CUDA IPC for symmetric memory.
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
  /// Implements PeerMemory::allocateFrom.
  Result<void *> allocateFrom(MemoryFrom from, int64_t bytes);
  /// Allocates host memory that the GPU writes and the host reads. fillFlags() does not change it.
  Result<void *> allocateReports(int64_t bytes);
  /// Implement Device::release, recycle and heldBytes. Regions stay allocated until freeUnused().
  void release(void *base);
  void recycle();
  int64_t heldBytes() const;
  /// Implements PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// Implements PeerMemory::open. Opening the same handle again returns the same address.
  Result<void *> open(int64_t peer, const std::string &handle);
  /// Implement the PeerMemory functions of the same names. Regions of host memory are never freed.
  std::string unusedMemory(bool isAll);
  void closeUnused(int64_t peer, llvm::StringRef unused);
  void freeUnused();
  /// Unmaps peers' memory. Peers may free their memory once all ranks have called this function.
  void closePeers();
  /// Makes the destructor leak all memory, because streams still use it.
  void abandon();

  /// Stores `value` into every flag that this rank owns. Callable from any thread, even while
  /// another thread allocates.
  void fillFlags(uint32_t value);

private:
  static constexpr size_t kAlignment = 256;
  /// A memory provider and the regions that this rank has allocated from it.
  struct Provided {
    llvm::StringLiteral kind;                            ///< the first field of its handles
    std::unique_ptr<SymmetricMemory> provider = nullptr; ///< null until first used
    BlockPool pool{kAlignment};
    std::set<uint32_t> wereUnused = {}; ///< regions found unused by the last unusedMemory() call
    std::vector<uint32_t> named = {};   ///< regions listed by the last unusedMemory() call
  };
  /// The header of a handle: the owner and the location of the memory.
  struct Place {
    int64_t rank = -1;
    uint32_t region = 0;
    size_t offset = 0;
  };
  /// Memory opened from a peer.
  struct Opened {
    void *base = nullptr;
    /// null for host memory
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
  BlockPool flags_{kAlignment}, reports_{kAlignment}; ///< their regions are owned by the group
  std::unordered_map<void *, size_t> private_;        ///< sizes in bytes
  std::vector<void *> releasedPrivate_;
  size_t privateBytes_ = 0;
  bool isAbandoned_ = false;
  /// Opened regions, by kind of memory, owner and region number.
  std::map<std::tuple<std::string, int64_t, uint32_t>, Opened> opened_;
};

} // namespace braid
