//===- backends/cuda/cuda_memory.h - memory of one GPU's rank, and of its peers ---------------===//
//
// Three kinds: device memory that peers can map (CUDA IPC exports whole allocations, so an arena is
// one, in multiples of 2 MiB), device memory of our own, and flags in host memory that all ranks
// share and that is registered with the GPU.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"
#include "runtime/execute/arena_reuse.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/job/process_group.h"

#include <mutex>
#include <vector>

namespace braid {

/// Everything that a rank allocated or opened. Freed in the order: closePeers(), then the object.
class CudaMemory {
public:
  /// Shared host memory is the group's.
  explicit CudaMemory(ProcessGroup &group) : group_(group) {}
  ~CudaMemory();
  CudaMemory(const CudaMemory &) = delete;

  /// As Device::allocate.
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
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
    bool holdsReports = false; ///< Flags: no flag of a transfer
    ArenaUse use = ArenaUse::Used;
  };
  enum class Kind : uint8_t { Flags, Device, OwnProcess };
  struct Opened {
    int64_t peer;
    std::string handle;
    void *base;
    Kind kind;
  };
  /// Memory of that kind which was recycled, with what is still in it. Null: there is none.
  void *reuse(ArenaKind kind, size_t bytes, bool holdsReports = false);
  Result<void *> allocateOnDevice(ArenaKind kind, size_t bytes);
  Result<void *> allocateFlags(size_t bytes, bool holdsReports);
  Result<void *> openFlags(int64_t peer, llvm::StringRef text);
  Result<void *> openDevice(int64_t peer, llvm::StringRef text);
  Result<void *> openOwn(void *base);

  ProcessGroup &group_;
  std::mutex mutex_; ///< of arenas_, which fillFlags() may read at any time
  std::vector<Arena> arenas_;
  std::vector<Opened> opened_;
};

} // namespace braid
