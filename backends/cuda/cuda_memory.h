//===- backends/cuda/cuda_memory.h - memory of one GPU's rank, and of its peers ---------------===//
//
// Three kinds: device memory that peers can map, of one provider or another
// (memory/symmetric_memory.h), device memory of our own, and flags in host memory that all ranks
// share and that is registered with the GPU.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "runtime/execute/arena_reuse.h"

#include <array>
#include <map>
#include <mutex>
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
  /// As Device::release and Device::recycle. What peers may have mapped is kept.
  void release(void *base);
  void recycle();
  /// As PeerMemory::exportMemory.
  Result<std::string> exportMemory(void *base);
  /// As PeerMemory::open. The same handle of the same peer gives the same address.
  Result<void *> open(int64_t peer, const std::string &handle);
  /// Unmaps what belongs to peers; they may free it when all have done so.
  void closePeers();
  /// Frees nothing, ever: streams still use it.
  void abandon();

  /// Stores `value` into every flag that this rank owns. Any thread, also while another allocates.
  void fillFlags(uint32_t value);

private:
  struct Arena {
    ArenaKind kind;
    void *base;
    size_t bytes;
    bool holdsReports = false;             ///< Flags: no flag of a transfer
    MemoryFrom from = MemoryFrom::Default; ///< Symmetric
    ArenaUse use = ArenaUse::Used;
  };
  struct Flags {
    int64_t peer;
    std::string handle;
    void *base;
    bool isRegistered; ///< by open()
  };
  void *reuse(const Arena &wanted);
  Result<void *> zeroed(void *base, size_t bytes) const;
  Result<void *> allocatePrivate(size_t bytes);
  Result<void *> allocateSymmetric(MemoryFrom from, size_t bytes);
  Result<void *> allocateNew(MemoryFrom from, size_t bytes);
  Result<std::vector<void *>> allocateTogether(MemoryFrom from, std::vector<int64_t> bytes,
                                               ControlPlane &control);
  void setUse(const void *base, ArenaUse use);
  Status agreeOnSizes(MemoryFrom from, std::vector<int64_t> &bytes, ControlPlane &control);
  Result<void *> allocateFlags(size_t bytes, bool holdsReports);
  Result<void *> openFlags(int64_t peer, const std::string &text);
  Result<std::unique_ptr<SymmetricMemory>> make(MemoryFrom from, ControlPlane &control);
  Result<SymmetricMemory *> provider(MemoryFrom from, ControlPlane &control);

  ProcessGroup &group_;
  const MakeOfMessages makeOfMessages_;
  std::mutex mutex_; ///< of arenas_, which fillFlags() may read at any time
  std::vector<Arena> arenas_;
  std::vector<Flags> flags_;                  ///< of peers
  std::map<void *, int64_t> togetherNumbers_; ///< of what all ranks allocated at once, in order
  int64_t togetherCount_ = 0;
  /// By MemoryFrom; null: not used so far.
  std::array<std::unique_ptr<SymmetricMemory>, kMemories> providers_;
  SymmetricMemory &ipc() const { return *providers_[static_cast<size_t>(MemoryFrom::Default)]; }
};

} // namespace braid
