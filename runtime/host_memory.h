//===- runtime/host_memory.h - what devices that live in host memory allocate -----------------===//
#pragma once

#include "runtime/in_process_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace braid {

/// One rank's allocations, freed with it.
class HostMemory {
public:
  explicit HostMemory(int64_t rank) : rank_(rank) {}

  /// As Device::allocate.
  Result<void *> allocate(ArenaKind kind, int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    constexpr int64_t kLimit = int64_t(1) << 47; // of a process's addresses
    std::unique_ptr<void, Free> memory;
    size_t size = 0;
    if (bytes >= 0 && bytes <= kLimit) {
      size = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
      memory.reset(std::aligned_alloc(kAlignment, size));
    }
    if (!memory)
      return Status(StatusCode::Unsupported, "rank " + std::to_string(rank_) + " cannot allocate " +
                                                 std::to_string(bytes) + " bytes");
    std::memset(memory.get(), 0, size);
    allocations_.push_back({kind, std::move(memory)});
    return allocations_.back().memory.get();
  }

  /// As Device::exportMemory, through `group`.
  Result<std::string> exportTo(InProcessGroup &group, void *base) const {
    for (const Allocation &allocation : allocations_)
      if (allocation.memory.get() == base && allocation.kind == ArenaKind::Symmetric)
        return group.exportAddress(rank_, base);
    return Status(StatusCode::BadInput, "expected a symmetric allocation of rank " +
                                            std::to_string(rank_) + " to export");
  }

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Allocation {
    ArenaKind kind;
    std::unique_ptr<void, Free> memory;
  };

  int64_t rank_;
  std::vector<Allocation> allocations_;
};

} // namespace braid
