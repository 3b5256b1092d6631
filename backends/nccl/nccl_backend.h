//===- backends/nccl/nccl_backend.h - GPUs that reach each other, or send messages ------------===//
#pragma once

#include "backends/cuda/cuda_backend.h"

namespace braid {

/// Adds "cuda" and "nccl": ranks are processes, one GPU each (joinCuda()). On both of them Plans
/// may reach peers' memory or send messages, by NCCL 2.19 or later (nccl_library.h); which of these
/// they do unless they are asked tells the two apart. "cuda" opens NCCL when a Plan needs it; ranks
/// of "nccl" are Unsupported, in one line, where there is none.
///
/// BRAID_SHARE_GPUS=on lets ranks that send messages share GPUs, from NCCL 2.30 on.
void registerGpuBackends(BackendRegistry &registry);

/// The NCCL that this machine has: its version and file, or why there is none.
Result<std::string> describeNccl();

} // namespace braid
