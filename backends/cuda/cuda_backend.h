//===- backends/cuda/cuda_backend.h - one rank on one GPU -------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Registers "cuda" and "nccl", whose ranks are processes with one GPU each (joinCuda()). On both,
/// Plans may access peers' memory, or send messages by NCCL 2.19 or later (nccl_library.h); the two
/// differ only in the default. "cuda" opens NCCL when a Plan needs it; "nccl" fails with
/// Unsupported, and a one-line message, if there is no NCCL.
void registerGpuBackends(BackendRegistry &registry);

/// Returns the number of GPUs that this process can use; 0 without a driver.
int countGpus();

/// Returns Unsupported with the reason why there is no GPU: no driver, a driver that is too old, or
/// CUDA's `reason`. `driver` and `runtime` are CUDA version numbers, 12040 for 12.4: the version
/// that the driver supports, or 0 without a driver, and the version of this build. `backend` is the
/// requested backend.
Status noGpu(const char *reason, int driver, int runtime, const char *backend = "cuda");

/// Implements Backend::join: ranks are processes with one GPU each, connected by CUDA IPC. Copy
/// engines copy by default, and cuBLASLt computes GEMMs. Fails with Unsupported, and the reason, if
/// there is no GPU for the rank, no driver, or no cuBLASLt.
///
/// BRAID_SHARE_GPUS=on in the environment lets ranks share GPUs if there are too few; ranks that
/// send messages, from NCCL 2.30 on. The GPU time-slices between its ranks, a few milliseconds
/// each: results are the same, but times are meaningless, so GEMMs are not tuned, even if each rank
/// has its own GPU.
Result<std::unique_ptr<Cluster>> joinCuda(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const char *backend = "cuda");

} // namespace braid
