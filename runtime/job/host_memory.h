//===- runtime/job/host_memory.h - device allocations in host memory --------------------------===//
#pragma once

#include "ir/failure.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/job/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace braid {

inline constexpr int64_t kHostAlignment = 256;

inline Status outOfMemory(int64_t rank, int64_t bytes) {
  return unsupported("rank {} cannot allocate {} bytes", rank, bytes);
}

inline Status noSymmetricMemory(int64_t rank) {
  return badInput("rank {} can export only its own symmetric allocations", rank);
}

/// Rounds `bytes` up to a positive multiple of kHostAlignment. Returns 0 if `bytes` is negative or
/// exceeds the address space.
inline size_t roundedBytes(int64_t bytes) {
  constexpr int64_t kLimit = int64_t(1) << 47; // address space of a process
  if (bytes < 0 || bytes > kLimit)
    return 0;
  return (std::max<int64_t>(bytes, 1) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
}

/// Owns one rank's allocations, except symmetric ones that belong to its ProcessGroup. recycle()
/// frees released allocations, and the destructor frees all others.
class HostMemory {
public:
  /// `shared` is null if all ranks are threads of this process and share its address space.
  HostMemory(int64_t rank, ProcessGroup *shared) : rank_(rank), shared_(shared) {}

  /// See Device::allocate.
  Result<void *> allocate(ArenaKind kind, int64_t bytes) {
    const bool isSymmetric = kind != ArenaKind::Private;
    if (isSymmetric && shared_)
      return shared_->allocateSymmetric(bytes);
    const size_t size = roundedBytes(bytes);
    void *memory = size == 0 ? nullptr : std::aligned_alloc(kHostAlignment, size);
    if (!memory)
      return outOfMemory(rank_, bytes);
    std::memset(memory, 0, size);
    allocations_[memory] = {Owned(memory), size, isSymmetric};
    heldBytes_ += size;
    return memory;
  }
  /// See PeerMemory::exportMemory and PeerMemory::open. If the ranks are threads, the handle
  /// contains the memory's address.
  Result<std::string> exportMemory(void *base) const {
    if (shared_)
      return shared_->exportMemory(base);
    const auto found = allocations_.find(base);
    if (found == allocations_.end() || !found->second.isSymmetric)
      return noSymmetricMemory(rank_);
    return fmt::format("in-process:{}:{}", rank_, reinterpret_cast<uintptr_t>(base));
  }
  Result<void *> open(int64_t peer, const std::string &handle) const {
    if (shared_)
      return shared_->open(peer, handle);
    llvm::StringRef text = handle;
    uintptr_t address = 0;
    if (!text.consume_front(fmt::format("in-process:{}:", peer)) || text.getAsInteger(10, address))
      return badInput("expected a handle that rank {} exported, got '{}'", peer, handle);
    return reinterpret_cast<void *>(address);
  }
  void release(void *base) {
    const auto found = allocations_.find(base);
    if (found != allocations_.end()) {
      released_.push_back(std::move(found->second));
      allocations_.erase(found);
    } else if (shared_) {
      shared_->releaseSymmetric(base);
    }
  }
  void recycle() {
    for (const Allocation &memory : released_)
      heldBytes_ -= memory.bytes;
    released_.clear();
    if (shared_)
      shared_->recycleSymmetric();
  }
  int64_t heldBytes() const {
    return static_cast<int64_t>(heldBytes_) + (shared_ ? shared_->symmetricBytes() : 0);
  }

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  using Owned = std::unique_ptr<void, Free>;
  struct Allocation {
    Owned memory;
    size_t bytes = 0;
    bool isSymmetric = false;
  };
  const int64_t rank_;
  ProcessGroup *const shared_;
  std::unordered_map<const void *, Allocation> allocations_;
  std::vector<Allocation> released_; ///< commands issued earlier may still use them
  size_t heldBytes_ = 0;             ///< bytes of allocations_ and released_
};

} // namespace braid
