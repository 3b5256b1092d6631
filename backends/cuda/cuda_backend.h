//===- backends/cuda/cuda_backend.h - one rank on one GPU -------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Registers "cuda" and "nccl", whose ranks are processes with one GPU each (joinCuda()). With
/// either backend, Plans may access peers' memory or send messages through NCCL 2.19 or later
/// (nccl_library.h); only the default transport differs. "cuda" opens NCCL when a Plan first needs
/// it; "nccl" fails with Unsupported and a one-line message if NCCL is unavailable.
void registerGpuBackends(BackendRegistry &registry);

/// Returns the number of GPUs that this process can use, or 0 if there is no driver.
int countGpus();

/// Returns Unsupported with the reason why no GPU is available: no driver, an outdated driver, or
/// `reason`, which is CUDA's explanation. `driver` is the CUDA version that the driver supports, or
/// 0 if there is none; `runtime` is the CUDA version of this build. Both use CUDA's format, such as
/// 12040 for 12.4. `backend` is the name of the requested backend.
Status noGpu(const char *reason, int driver, int runtime, const char *backend = "cuda");

/// Implements Backend::join: ranks are processes with one GPU each, connected by CUDA IPC. Copy
/// engines execute copies by default, and cuBLASLt computes GEMMs. Fails with Unsupported and the
/// reason if there is no GPU for the rank, no driver, or no cuBLASLt.
///
/// If BRAID_SHARE_GPUS=on is set in the environment, ranks share GPUs if there are fewer GPUs than
/// ranks; ranks that send messages then need NCCL 2.30 or later. A shared GPU switches between
/// ranks every few milliseconds. Sharing does not affect results, but times are meaningless, so
/// GEMMs are not tuned, even if each rank has its own GPU.
Result<std::unique_ptr<Cluster>> joinCuda(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const char *backend = "cuda");

} // namespace braid
