//===- runtime/job/host_memory.h - allocations of devices in host memory ----------------------===//
#pragma once

#include "runtime/execute/peer_memory.h"
#include "runtime/job/rank_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace braid {

inline constexpr int64_t kHostAlignment = 256;

inline Status outOfMemory(int64_t rank, int64_t bytes) {
  return Status(StatusCode::Unsupported, "rank " + std::to_string(rank) + " cannot allocate " +
                                             std::to_string(bytes) + " bytes");
}

inline Status noSymmetricMemory(int64_t rank) {
  return Status(StatusCode::BadInput,
                "expected a symmetric allocation of rank " + std::to_string(rank) + " to export");
}

/// Rounds `bytes` up to a positive multiple of the alignment. Returns 0 if `bytes` is negative or
/// exceeds the address space.
inline size_t roundedBytes(int64_t bytes) {
  constexpr int64_t kLimit = int64_t(1) << 47; // address space of a process
  if (bytes < 0 || bytes > kLimit)
    return 0;
  return (std::max<int64_t>(bytes, 1) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
}

/// See Device::allocate. The caller frees the memory with std::free.
inline Result<void *> allocateZeroed(int64_t rank, int64_t bytes) {
  const size_t size = roundedBytes(bytes);
  void *memory = size == 0 ? nullptr : std::aligned_alloc(kHostAlignment, size);
  if (!memory)
    return outOfMemory(rank, bytes);
  std::memset(memory, 0, size);
  return memory;
}

/// The allocations of one rank. Private ones are freed when they are recycled or with this object;
/// symmetric ones belong to the group.
class HostMemory {
public:
  HostMemory(RankGroup &group, int64_t rank) : group_(group), rank_(rank) {}

  /// See Device::allocate.
  Result<void *> allocate(ArenaKind kind, int64_t bytes) {
    if (kind != ArenaKind::Private)
      return group_.allocateSymmetric(rank_, bytes);
    Result<void *> memory = allocateZeroed(rank_, bytes);
    if (memory) {
      allocations_[*memory] = {Owned(*memory), roundedBytes(bytes)};
      privateBytes_ += roundedBytes(bytes);
    }
    return memory;
  }
  /// See PeerMemory::exportMemory and PeerMemory::open.
  Result<std::string> exportMemory(void *base) const { return group_.exportMemory(rank_, base); }
  Result<void *> open(int64_t peer, const std::string &handle) const {
    return group_.open(peer, handle);
  }
  void release(void *base) {
    auto found = allocations_.find(base);
    if (found == allocations_.end())
      return group_.releaseSymmetric(rank_, base);
    released_.push_back(std::move(found->second));
    allocations_.erase(found);
  }
  void recycle() {
    for (const Private &memory : released_)
      privateBytes_ -= memory.bytes;
    released_.clear();
    group_.recycleSymmetric(rank_);
  }
  int64_t heldBytes() const {
    return static_cast<int64_t>(privateBytes_) + group_.symmetricBytes(rank_);
  }

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  using Owned = std::unique_ptr<void, Free>;
  struct Private {
    Owned memory;
    size_t bytes = 0;
  };
  RankGroup &group_;
  int64_t rank_;
  std::unordered_map<const void *, Private> allocations_;
  std::vector<Private> released_; ///< commands issued earlier may still use them
  size_t privateBytes_ = 0;       ///< bytes of allocations_ and released_
};

} // namespace braid
