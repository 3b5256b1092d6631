//===- backends/cuda/cuda_transfers.cpp - copies, signals and awaits on one GPU ---------------===//
//
// Signals, awaits and copies are issued in one of two ways, chosen by measurement (see README.md in
// this directory). A signal that uses a stream memory operation takes 8.6 us, plus 0.7 us of host
// time. A signal that a kernel sends takes 4.7 us in a graph, but a separate launch takes 2.8 us of
// host time, and the kernel needs a multiprocessor that a GEMM may occupy. Copy engines move large
// blocks concurrently with arithmetic, but start slowly. A kernel starts immediately, and the same
// launch can also execute neighboring commands on the stream, such as a small sum of arriving
// data.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/cuda_transfers.h"

#include "backends/cuda/elements.h"
#include "backends/cuda/launch_filler.h"
#include "ir/failure.h"

#include <algorithm>
#include <array>

namespace braid {
namespace {

CUstreamBatchMemOpParams waitUntilSet(const void *flag) {
  CUstreamBatchMemOpParams op = {};
  op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = reinterpret_cast<CUdeviceptr>(flag);
  op.waitValue.value = 1;
  op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return op;
}

Tag tagOf(Tag tag, const BatchedCommand &step) {
  tag.command = step.command;
  return tag;
}

/// Returns true if flags are in the memory of the GPU that awaits them, which is faster than host
/// memory for that GPU and its peers. Requires that only kernels access the flags; the host ends
/// waits through a separate word that kernels poll.
bool hasFlagsOnDevice(TransferMode mode) {
  return mode.signals == SignalBy::Kernel ||
         (mode.signals == SignalBy::Default && mode.copies == CopyBy::Kernel);
}

} // namespace

/// Returns true if the GPU can perform atomics on all other GPUs' memory, for example over NVLink.
/// Requires that this process can query the GPUs of all `ranks` on the host.
static bool addsAtPeers(int device, int64_t ranks) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < ranks)
    return false;
  int adds = count > 1;
  for (int peer = 0; peer < count && adds; ++peer)
    if (peer != device && cudaDeviceGetP2PAttribute(&adds, cudaDevP2PAttrNativeAtomicSupported,
                                                    device, peer) != cudaSuccess)
      adds = 0;
  (void)cudaGetLastError(); // clears errors from rejected queries
  return adds != 0;
}

Status CudaTransfers::start() {
  int major = 0;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu_.number));
  hasBulkCopies_ = major >= 9;
  hasPeerAtomics_ = addsAtPeers(gpu_.number, gpu_.group.memory().ranksPerHost());
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, gpu_.number));
  released_ = static_cast<uint32_t *>(BRAID_TRY(memory_.allocateReports(kFlagStride)));
  constexpr size_t kBytes =
      size_t(kMaxPlanStreams) * cuda::CopyAndSignal::kCounters * sizeof(uint32_t);
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&counters_, kBytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(counters_, 0, kBytes));
  BRAID_CUDA_RETURN_IF_ERROR(cuda::loadCopyAndSignal());
  return Status::ok();
}

CudaTransfers::~CudaTransfers() {
  if (!gpu_.isAbandoned)
    cudaFree(counters_);
}

Status CudaTransfers::planWaiting(TransferMode mode, RegisteredPlan &registered) const {
  const Plan &plan = *registered.plan;
  // At most 64 streams, or half the number of multiprocessors on a small GPU.
  const size_t mostStreams = std::min<size_t>(64, static_cast<size_t>(processors_) / 2);
  registered.waitsByMemory = plan.streams.size() > mostStreams;
  if (registered.waitsByMemory && hasFlagsOnDevice(mode))
    return unsupported("a run whose signals are sent by kernels can use at most {} streams, got {}",
                       mostStreams, plan.streams.size());
  registered.waiting = waitingKernels(plan, mode);
  if (!registered.waitsByMemory)
    registered.lastSteps = lastStepsOf(plan);
  return Status::ok();
}

/// Reserves multiprocessors. This object's address identifies the job in the budget.
LaunchLimits CudaTransfers::reserve(WaitingBudget::Lane lane, const RegisteredPlan &plan) {
  return limitsFor(plan.waiting, budget().reserve(this, lane, &plan, plan.waiting));
}

void CudaTransfers::reserveWaiting(RegisteredPlan &plan) {
  plan.limits = reserve(WaitingBudget::Lane::Ordered, plan);
}

void CudaTransfers::releaseWaiting(const RegisteredPlan &plan) { budget().release(&plan); }

void CudaTransfers::releaseWaits() {
  std::atomic_ref<uint32_t>(*released_).store(1, std::memory_order_relaxed);
  memory_.fillFlags(cuda::kReleasedFlag);
}

/// Callers' graphs may run concurrently with other programs, so they have separate limits.
const LaunchLimits &CudaTransfers::limitsOf(Tag tag) {
  RegisteredPlan *plan = graphs_.isInCallersCapture() ? progress_.find(tag.plan) : nullptr;
  if (!plan)
    return progress_.of(tag.plan).limits;
  if (!plan->limitsInGraphs)
    plan->limitsInGraphs = reserve(WaitingBudget::Lane::CallersGraphs, *plan);
  return *plan->limitsInGraphs;
}

ArenaKind CudaTransfers::arenaOfFlags(TransferMode mode) const {
  return hasFlagsOnDevice(mode) ? ArenaKind::Symmetric : ArenaKind::Flags;
}

bool CudaTransfers::isByKernel(const BatchedCommand &step, Tag tag, TransferMode mode) const {
  if (step.kind == CommandKind::Sum)
    return true;
  if (step.kind == CommandKind::Copy)
    return mode.copies == CopyBy::Kernel;
  if (hasFlagsOnDevice(mode))
    return true;
  const RegisteredPlan &plan = progress_.of(tag.plan);
  if (graphs_.isCountedBySteps(plan) &&
      (graphs_.isRunToBegin() || plan.lastSteps.contains(step.command)))
    return true;
  return mode.signals == SignalBy::Default && streams_.isCapturing() && !plan.waitsByMemory;
}

/// While tracing, issues each step separately, so that each step has its own span.
void CudaTransfers::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                               bool areDisjoint, TransferMode mode) {
  const bool isApart = tracer_.isTracing();
  while (!steps.empty() && !gpu_.group.isAborted()) {
    const CommandKind kind = steps.front().kind;
    const bool isKernel = isByKernel(steps.front(), tag, mode);
    size_t count = 1;
    while (!isApart && count < steps.size() && isByKernel(steps[count], tag, mode) == isKernel &&
           (isKernel || (kind != CommandKind::Copy && steps[count].kind != CommandKind::Copy)))
      ++count;
    const Issuing issuing(tracer_, stream, tagOf(tag, steps.front()));
    if (isKernel)
      issueCopyAndSignal(stream, tag, steps.take_front(count), areDisjoint, mode);
    else if (kind == CommandKind::Copy)
      copyByEngine(stream, steps.front().dst, steps.front().src, steps.front().bytes);
    else
      issueMemoryOperations(stream, tag, steps.take_front(count));
    steps = steps.drop_front(count);
  }
}

void CudaTransfers::copyByEngine(uint32_t stream, void *dst, const void *src, int64_t bytes) const {
  if (bytes != 0)
    gpu_.check(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault,
                               streams_.of(stream)),
               "cudaMemcpyAsync");
}

void CudaTransfers::issueMemoryOperations(uint32_t stream, Tag tag,
                                          llvm::ArrayRef<BatchedCommand> steps) {
  constexpr unsigned kMost = 96; // the driver accepts up to 256
  std::array<CUstreamBatchMemOpParams, kMost> operations;
  unsigned count = 0;
  auto flush = [&] {
    gpu_.check(gpu_.driver->streamBatchMemOp(streams_.of(stream), count, operations.data(), 0),
               "cuStreamBatchMemOp");
    count = 0;
  };
  for (const BatchedCommand &step : steps) {
    if (count + 3 > kMost)
      flush();
    if (step.kind == CommandKind::Await)
      operations[count++] = waitUntilSet(step.flag);
    operations[count++] = writeOf(step.flag, step.kind == CommandKind::Signal ? 1 : 0);
    operations[count++] =
        writeOf(progress_.stepOf(stream, tag), progress_.number(stream, tagOf(tag, step)));
  }
  flush();
}

void CudaTransfers::issueCopyAndSignal(uint32_t stream, Tag tag,
                                       llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                                       TransferMode mode) {
  const RegisteredPlan &plan = progress_.of(tag.plan);
  const LaunchLimits &limits = limitsOf(tag);
  while (!steps.empty()) {
    if (steps.front().kind == CommandKind::Sum) {
      cuda::launchSum(streams_.of(stream), cuda::sumOf(*steps.front().sum));
      gpu_.check(cudaGetLastError(), "launchSum");
      steps = steps.drop_front();
      continue;
    }
    cuda::CopyAndSignal batch;
    batch.step = progress_.stepOf(stream, tag);
    batch.released = hasFlagsOnDevice(mode) ? released_ : nullptr;
    batch.fencesReadySignals = batch.fencesMoves = batch.released == nullptr;
    batch.counters = (streams_.isCapturing() ? plan.ofGraphs.counters : counters_) +
                     stream * cuda::CopyAndSignal::kCounters;
    const size_t taken = addToCopyAndSignal(batch, stream, tag, steps, areDisjoint, limits);
    if (graphs_.isCountedBySteps(plan)) {
      batch.guard = plan.ofGraphs.guard;
      batch.beginsRun = graphs_.takeRunToBegin();
      batch.endsRun = llvm::any_of(steps.take_front(taken), [&](const BatchedCommand &step) {
        return step.command + 1 == plan.lastSteps.end;
      });
    }
    steps = steps.drop_front(taken);
    cuda::launchCopyAndSignal(streams_.of(stream), batch, limits.blocks, hasBulkCopies_);
    gpu_.check(cudaGetLastError(), "launchCopyAndSignal");
  }
}

size_t CudaTransfers::addToCopyAndSignal(cuda::CopyAndSignal &batch, uint32_t stream, Tag tag,
                                         llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                                         const LaunchLimits &limits) {
  const auto numberOf = [&](const BatchedCommand &step) {
    return progress_.number(stream, tagOf(tag, step));
  };
  cuda::LaunchFiller filler(
      batch,
      {.haveCopies = areDisjoint, .waitAndWork = !limits.waitsApart, .give = hasPeerAtomics_},
      numberOf);
  size_t taken = 0;
  while (taken < steps.size() && filler.take(steps[taken]))
    ++taken;
  return taken;
}

} // namespace braid
