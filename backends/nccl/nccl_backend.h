//===- backends/nccl/nccl_backend.h - GPU ranks with peer memory or messages ------------------===//
#pragma once

#include "backends/cuda/cuda_backend.h"

namespace braid {

/// Registers "cuda" and "nccl", whose ranks are processes with one GPU each (joinCuda()). On both,
/// Plans may access peers' memory, or send messages by NCCL 2.19 or later (nccl_library.h); the two
/// differ only in the default. "cuda" opens NCCL when a Plan needs it; "nccl" fails with
/// Unsupported, and a one-line message, if there is no NCCL.
///
/// BRAID_SHARE_GPUS=on lets ranks that send messages share GPUs, from NCCL 2.30 on.
void registerGpuBackends(BackendRegistry &registry);

/// Returns version and file of this machine's NCCL, or the reason why there is none.
Result<std::string> describeNccl();

} // namespace braid
