//===- backends/nccl/nccl_memory.h - memory of NCCL that all ranks reach ----------------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "backends/nccl/communicator.h"

#include <mutex>

namespace braid::nccl {

/// Who may call NCCL, and whether anybody may.
struct Calls {
  std::timed_mutex &exclusive; ///< held during each call
  const std::atomic<bool> &isAborted;
};

/// Memory that is registered as windows of a communicator of all ranks, without multicast. The
/// communicator is closed after closePeers(), and `calls` outlives this. Unsupported if the library
/// is older than 2.29, which cannot tell the host where peers' memory is.
Result<std::unique_ptr<SymmetricMemory>> makeMemory(const Library &library,
                                                    const Communicator &communicator, Calls calls);

} // namespace braid::nccl
