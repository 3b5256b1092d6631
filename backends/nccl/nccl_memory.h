//===- backends/nccl/nccl_memory.h - memory allocated by NCCL and its registrations -----------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "backends/nccl/communicator.h"
#include "runtime/execute/transfer_mode.h"

#include <map>
#include <mutex>
#include <vector>

namespace braid::nccl {

/// Permission to call NCCL: for one thread at a time, and for none after an abort.
struct Calls {
  std::timed_mutex &exclusive; ///< held during each call
  const std::atomic<bool> &isAborted;
};

/// Memory from ncclMemAlloc and its registrations with communicators: as windows without multicast
/// (MemoryFrom::Nccl), or as buffers (MemoryFrom::NcclRegistered). Callers must hold
/// Calls::exclusive.
class OwnMemory {
public:
  /// Fails with Unsupported if windows are requested, and the library is too old for them.
  static Result<std::unique_ptr<OwnMemory>> create(const Library &library, MemoryFrom from);
  /// Frees all allocations; requires deregister() before.
  ~OwnMemory();

  Result<void *> allocate(size_t bytes);
  /// Registers every allocation that is not yet registered with `communicator`. For windows,
  /// collective among its members, who must have made the same allocations. After a failure,
  /// another call resumes.
  Status registerWith(const Communicator &communicator);
  /// Removes all registrations. Call before the communicators close; an aborted communicator has
  /// none.
  void deregister();

  size_t count() const { return allocations_.size(); }
  /// Returns the index of an allocation, in the order of allocations; count() if `base` is not one.
  size_t numberOf(const void *base) const;
  /// Returns null if the allocation is not registered with the communicator.
  Window *window(size_t number, const Communicator &communicator) const;

private:
  OwnMemory(const Library &library, MemoryFrom from) : library_(library), from_(from) {}
  /// A window or a buffer registration. The library may set either asynchronously, until the
  /// registration is complete.
  struct Handle {
    Window *window = nullptr;
    void *registration = nullptr;
    bool isThere() const { return window || registration; }
  };
  struct Allocation {
    void *base = nullptr;
    size_t bytes = 0;
    std::map<const Communicator *, Handle> handles; ///< a map, so addresses remain valid
  };
  Status registerIt(const Communicator &communicator, const Allocation &memory, Handle &handle);
  Status deregisterIt(const Communicator &communicator, const Handle &handle);

  const Library &library_;
  const MemoryFrom from_;
  std::vector<Allocation> allocations_; ///< for windows, in the same order on all ranks
};

/// Wraps `memory` for peers and messages. Windows are registered with the communicator of all ranks
/// when they are allocated; peers open them through it if the library is 2.29 or later. Closed
/// after closePeers(). `calls` must outlive the result.
std::unique_ptr<SymmetricMemory> makeMemory(const Library &library,
                                            const Communicator &communicator, Calls calls,
                                            MemoryFrom from, std::shared_ptr<OwnMemory> memory);

} // namespace braid::nccl
