//===- backends/nccl/nccl_memory.h - memory of NCCL, which communicators know -----------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "backends/nccl/communicator.h"
#include "runtime/execute/transfer_mode.h"

#include <map>
#include <mutex>
#include <vector>

namespace braid::nccl {

/// Permission to call NCCL: one thread at a time, and none once it is closed.
struct Calls {
  std::timed_mutex &exclusive; ///< held during each call
  const std::atomic<bool> &isAborted;
};

/// Memory from ncclMemAlloc and its registrations with communicators: as windows without multicast
/// (MemoryFrom::Nccl), or as buffers (MemoryFrom::NcclRegistered). Callers hold Calls::exclusive.
class OwnMemory {
public:
  /// Unsupported if the library is older than windows, and they are wanted.
  static Result<std::unique_ptr<OwnMemory>> create(const Library &library, MemoryFrom from);
  /// Frees what there is, after deregister().
  ~OwnMemory();

  Result<void *> allocate(size_t bytes);
  /// Lets a communicator know all that it does not know. Windows: collective among its members, who
  /// have allocated the same. Goes on where it has failed.
  Status registerWith(const Communicator &communicator);
  /// No communicator knows any of it any more. Before they close; an aborted one knows nothing.
  void deregister();

  size_t count() const { return allocations_.size(); }
  /// The index of an allocation, in the order of allocations; count() if `base` is none.
  size_t numberOf(const void *base) const;
  /// Null: the communicator knows of none.
  Window *window(size_t number, const Communicator &communicator) const;

private:
  OwnMemory(const Library &library, MemoryFrom from) : library_(library), from_(from) {}
  /// One of both, when it is registered. The library may write it at any time until then.
  struct Handle {
    Window *window = nullptr;
    void *registration = nullptr;
    bool isThere() const { return window || registration; }
  };
  struct Allocation {
    void *base = nullptr;
    size_t bytes = 0;
    std::map<const Communicator *, Handle> handles; ///< stay where they are
  };
  Status registerIt(const Communicator &communicator, const Allocation &memory, Handle &handle);
  Status deregisterIt(const Communicator &communicator, const Handle &handle);

  const Library &library_;
  const MemoryFrom from_;
  std::vector<Allocation> allocations_; ///< windows: in the same order on all ranks
};

/// `memory` for peers and messages. Of windows, the communicator of all ranks knows each when it
/// has been allocated; by that peers open it, if the library is of 2.29 or later. It is closed
/// after closePeers(), and `calls` outlives this.
std::unique_ptr<SymmetricMemory> makeMemory(const Library &library,
                                            const Communicator &communicator, Calls calls,
                                            MemoryFrom from, std::shared_ptr<OwnMemory> memory);

} // namespace braid::nccl
