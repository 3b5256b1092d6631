//===- api/machine/gpu_count.cpp - the number of GPUs that this process can use ---------------===//

#include "api/machine/gpu_count.h"

#ifdef BRAID_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

namespace braid {

int64_t gpuCount() {
#ifdef BRAID_HAS_CUDA
  return countGpus();
#else
  return 0;
#endif
}

} // namespace braid
