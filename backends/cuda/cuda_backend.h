//===- backends/cuda/cuda_backend.h - one rank on one GPU -------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

class MessageLibrary; // backends/cuda/message_library.h
class RankGroup;      // runtime/job/rank_group.h

/// Returns the number of GPUs that this process can use; 0 without a driver.
int countGpus();

/// Returns Unsupported with the reason why there is no GPU: no driver, a driver that is too old, or
/// CUDA's `reason`. `driver` and `runtime` are CUDA version numbers, 12040 for 12.4: the version
/// that the driver supports, or 0 without a driver, and the version of this build. `backend` is the
/// requested backend.
Status noGpu(const char *reason, int driver, int runtime, const char *backend = "cuda");

/// Options for a process that uses CUDA itself.
struct CudaRankOptions {
  /// A cudaStream_t to use as stream 0, in whose order inputs are read and outputs written. Null:
  /// creates one.
  void *stream = nullptr;
  /// Has the effect of BRAID_SHARE_GPUS=on.
  bool mayShare = false;
  /// The name of the backend.
  const char *backend = "cuda";
  /// Creates the message library; unset if ranks send no messages.
  std::function<std::unique_ptr<MessageLibrary>(const RankGroup &)> makeMessages = {};
};

/// Implements Backend::join: ranks are processes with one GPU each, connected by CUDA IPC. Copy
/// engines copy by default, and cuBLASLt computes GEMMs. Fails with Unsupported, and the reason, if
/// there is no GPU for the rank, no driver, or no cuBLASLt.
///
/// BRAID_SHARE_GPUS=on in the environment lets ranks share GPUs if there are too few. The GPU
/// time-slices between its ranks, a few milliseconds each: results are the same, but times are
/// meaningless, so GEMMs are not tuned, even if each rank has its own GPU.
Result<std::unique_ptr<Cluster>> joinCuda(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const CudaRankOptions &rank);

} // namespace braid
