//===- backends/nccl/nccl_backend.h - GPUs that send each other messages ----------------------===//
#pragma once

#include "backends/cuda/cuda_backend.h"

namespace braid {

/// Adds "nccl": ranks and their work as with "cuda", but what moves between them are messages by
/// NCCL 2.19 or later, which is looked for when ranks join (nccl_library.h). Unsupported, in one
/// line, where there is none.
///
/// With BRAID_SHARE_GPUS=on ranks may share GPUs, from NCCL 2.30 on.
void registerNcclBackend(BackendRegistry &registry);

/// As joinCuda().
Result<std::unique_ptr<Cluster>> joinNccl(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const CudaRankOptions &rank);

/// The NCCL that this machine has: its version and file, or why there is none.
Result<std::string> describeNccl();

} // namespace braid
