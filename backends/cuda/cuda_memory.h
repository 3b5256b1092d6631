//===- backends/cuda/cuda_memory.h - memory of one GPU's rank, and of its peers ---------------===//
//
// Three kinds: device memory that peers can map, of one provider or another
// (memory/symmetric_memory.h), device memory of our own, and flags in host memory that all ranks
// share and that is registered with the GPU. What peers map or the GPU has to know is had in
// regions, of which programs get blocks.
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

/// Everything that a rank allocated or opened. Freed in the order: closePeers(), then the object.
class CudaMemory {
public:
  /// Makes the memory that the library for messages has.
  using MakeOfMessages =
      std::function<Result<std::unique_ptr<SymmetricMemory>>(MemoryFrom, ControlPlane &control)>;

  /// Shared host memory is the group's.
  CudaMemory(ProcessGroup &group, MakeOfMessages makeOfMessages);
  ~CudaMemory();
  CudaMemory(const CudaMemory &) = delete;

  /// As Device::allocate. What is symmetric is of CUDA IPC.
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
  /// As PeerMemory::allocateFrom.
  Result<std::vector<void *>> allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t> bytes,
                                           ControlPlane &control);
  /// Host memory that the GPU writes and the host reads, and that fillFlags() leaves alone.
  Result<void *> allocateReports(int64_t bytes);
  /// As Device::release, recycle and heldBytes. Regions stay.
  void release(void *base);
  void recycle();
  int64_t heldBytes() const;
  /// As PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// As PeerMemory::open. The same handle of the same peer gives the same address.
  Result<void *> open(int64_t peer, const std::string &handle);
  /// As in PeerMemory. Regions of host memory, and of providers that give nothing back, stay.
  std::string unusedMemory(bool isAll);
  void closeUnused(int64_t peer, llvm::StringRef unused);
  void freeUnused();
  /// Unmaps what belongs to peers; they may free it when all have done so.
  void closePeers();
  /// Frees nothing, ever: streams still use it.
  void abandon();

  /// Stores `value` into every flag that this rank owns. Any thread, also while another allocates.
  void fillFlags(uint32_t value);

private:
  static constexpr size_t kAlignment = 256;
  /// The memory of a provider, and the regions of it that this rank has.
  struct Provided {
    std::unique_ptr<SymmetricMemory> provider; ///< null: not used so far
    BlockPool pool{kAlignment};
    std::set<uint32_t> wereUnused; ///< when unusedMemory() was asked last
    std::vector<uint32_t> named;   ///< by it, to be freed
  };
  /// The head of a handle: its owner and its place.
  struct Place {
    int64_t rank = -1;
    uint32_t region = 0;
    size_t offset = 0;
  };
  struct Opened {
    void *base = nullptr;
    bool isRegistered = false; ///< host memory, with the GPU
  };

  Provided &of(MemoryFrom from) { return provided_[static_cast<size_t>(from)]; }
  Result<void *> zeroed(void *base, size_t bytes) const;
  Result<void *> allocatePrivate(size_t bytes);
  Result<void *> allocateSymmetric(MemoryFrom from, int64_t bytes);
  Result<uint32_t> addRegion(MemoryFrom from, int64_t bytes);
  Result<std::vector<void *>> allocateTogether(MemoryFrom from, std::vector<int64_t> bytes,
                                               ControlPlane &control);
  Status agreeOnSizes(MemoryFrom from, std::vector<int64_t> &bytes, ControlPlane &control);
  Result<void *> allocateOnHost(BlockPool &pool, int64_t bytes);
  SymmetricMemory *named(llvm::StringRef kind) const;
  Result<Opened> openRegion(llvm::StringRef kind, int64_t peer, llvm::StringRef handle);
  Result<std::unique_ptr<SymmetricMemory>> make(MemoryFrom from, ControlPlane &control);
  Result<SymmetricMemory *> provider(MemoryFrom from, ControlPlane &control);

  ProcessGroup &group_;
  const MakeOfMessages makeOfMessages_;
  std::array<Provided, kMemories> provided_; ///< by MemoryFrom
  std::mutex mutex_; ///< guards flags_, which fillFlags() may read at any time
  BlockPool flags_{kAlignment}, reports_{kAlignment}; ///< their regions are the group's
  std::unordered_map<void *, size_t> private_;        ///< bytes
  std::vector<void *> releasedPrivate_;
  size_t privateBytes_ = 0;
  bool isAbandoned_ = false;
  /// Regions of peers, by what they are of, rank and number.
  std::map<std::tuple<std::string, int64_t, uint32_t>, Opened> opened_;
};

} // namespace braid
