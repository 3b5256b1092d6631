//===- backends/cuda/cuda_backend.h - one rank on one GPU -------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

class MessageLibrary; // backends/cuda/message_library.h
class RankGroup;      // runtime/job/rank_group.h

/// GPUs that this process can use; 0 where there is no driver.
int countGpus();

/// Why there are none, Unsupported: there is no driver, it is too old, or else CUDA's `reason`.
/// `driver` and `runtime` are CUDA's version numbers, 12040 for 12.4: what the driver supports, 0
/// if there is none, and what this build was made with; `backend` is what was asked for.
Status noGpu(const char *reason, int driver, int runtime, const char *backend = "cuda");

/// Options for a process that uses CUDA itself.
struct CudaRankOptions {
  /// A cudaStream_t to use as stream 0: inputs are read and outputs written in its order. Null: a
  /// stream of Braid's own.
  void *stream = nullptr;
  /// As if BRAID_SHARE_GPUS were `on`.
  bool mayShare = false;
  /// The name of the backend.
  const char *backend = "cuda";
  /// Makes what sends messages; null: ranks send none.
  std::function<std::unique_ptr<MessageLibrary>(const RankGroup &)> makeMessages = {};
};

/// As Backend::join: ranks are processes, one GPU each, connected by CUDA IPC. Copies are made by
/// the copy engines, GEMMs by cuBLASLt. Unsupported, with the reason, where there is no GPU for the
/// rank, no driver, or no cuBLASLt.
///
/// BRAID_SHARE_GPUS=on in the environment lets ranks share GPUs if there are too few. Ranks of one
/// GPU take turns of some milliseconds: results are the same, but times say nothing, so no GEMM is
/// tuned, even if each rank has a GPU to itself.
Result<std::unique_ptr<Cluster>> joinCuda(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const CudaRankOptions &rank);

} // namespace braid
