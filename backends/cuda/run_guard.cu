//===- backends/cuda/run_guard.cu - detects overlapping runs of one program -------------------===//

#include "backends/cuda/element_types.h"
#include "backends/cuda/tell_runs.h"

namespace braid::cuda {
namespace {

using Counter = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;

__global__ void runBeginKernel(RunGuard guard) {
  const uint32_t before = Counter(guard.counts[0]).fetch_add(1, ::cuda::memory_order_acq_rel);
  tellBegin(guard, before, Counter(guard.counts[1]).load(::cuda::memory_order_acquire));
}

__global__ void runEndKernel(RunGuard guard) {
  const uint32_t before = Counter(guard.counts[1]).fetch_add(1, ::cuda::memory_order_acq_rel);
  tell(guard.report->ended, before + 1);
}

} // namespace

void launchRunBegin(cudaStream_t stream, RunGuard guard) {
  runBeginKernel<<<1, 1, 0, stream>>>(guard);
}

void launchRunEnd(cudaStream_t stream, RunGuard guard) { runEndKernel<<<1, 1, 0, stream>>>(guard); }

cudaError_t loadRunGuard() {
  KernelLoader loader;
  loader.load(runBeginKernel);
  loader.load(runEndKernel);
  return loader.code();
}

} // namespace braid::cuda
