//===- backends/cuda/cuda_command_batch.cpp - what a GPU's streams get in batches -------------===//
//
// Two ways for signals, awaits and copies, by what was measured (backends/cuda/README.md). Memory
// operations of a stream signal in 8.6 us and cost the host 0.7 us; a kernel does it in 4.7 us in a
// graph, but costs the host 2.8 us where it is launched by itself, and needs a processor that a
// GEMM may hold. Copy engines move large blocks beside the arithmetic, and start slowly; a kernel
// starts at once, and does with a single launch what its neighbours in the stream would do with one
// each: a small sum of what arrives, too.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/elements.h"
#include "backends/cuda/issuing.h"
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

/// Flags that no memory operation waits for may lie with the GPU that awaits them, nearer to it
/// and to its peers than the host's memory: the host ends waits by a flag that the kernels look at.
bool hasFlagsOnDevice(TransferMode mode) {
  return mode.signals == SignalBy::Kernel ||
         (mode.signals == SignalBy::Default && mode.copies == CopyBy::Kernel);
}

} // namespace

/// Whether that GPU adds to memory of all others, as by NVLink. Nothing is known of those that this
/// process does not see, and it sees all if there is one for each of the host's `ranks`.
static bool addsAtPeers(int device, int64_t ranks) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < ranks)
    return false;
  int adds = count > 1;
  for (int peer = 0; peer < count && adds; ++peer)
    if (peer != device && cudaDeviceGetP2PAttribute(&adds, cudaDevP2PAttrNativeAtomicSupported,
                                                    device, peer) != cudaSuccess)
      adds = 0;
  (void)cudaGetLastError(); // what was refused
  return adds != 0;
}

Status CudaDevice::startCopyAndSignal() {
  int major = 0;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options_.device));
  hasBulkCopies_ = major >= 9;
  hasPeerAtomics_ = addsAtPeers(options_.device, group_.memory().ranksPerHost());
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, options_.device));
  released_ = static_cast<uint32_t *>(BRAID_TRY(memory_.allocateReports(kFlagStride)));
  constexpr size_t kBytes =
      size_t(kMaxPlanStreams) * cuda::CopyAndSignal::kCounters * sizeof(uint32_t);
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&copyAndSignalCounters_, kBytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(copyAndSignalCounters_, 0, kBytes));
  BRAID_CUDA_RETURN_IF_ERROR(cuda::loadCopyAndSignal());
  return Status::ok();
}

/// Kernels that wait for peers must leave room for what the peers wait for.
Status CudaDevice::planCopyAndSignal(TransferMode mode, Timetable &timetable) const {
  const Plan &plan = *timetable.plan;
  const size_t mostStreams = std::min<size_t>(64, static_cast<size_t>(processors_) / 2); // of 128
  timetable.waitsByMemory = plan.streams.size() > mostStreams;
  if (timetable.waitsByMemory && hasFlagsOnDevice(mode))
    return unsupported("signals by kernels: expected at most {} streams, got {}", mostStreams,
                       plan.streams.size());
  timetable.waiting = waitingKernels(plan, mode);
  return Status::ok();
}

LaunchLimits CudaDevice::reserveWaiting(WaitingBudget::Lane lane, const Timetable &timetable) {
  return limitsFor(timetable.waiting,
                   waitingBudget().reserve(this, lane, &timetable, timetable.waiting));
}

/// Graphs of the caller's may run beside other programs of this job.
const LaunchLimits &CudaDevice::limitsOf(Tag tag) {
  Timetable *timetable = isInCallersCapture() ? findTimetable(tag.plan) : nullptr;
  if (!timetable)
    return timetableOf(tag.plan).limits;
  if (!timetable->limitsInGraphs)
    timetable->limitsInGraphs = reserveWaiting(WaitingBudget::Lane::CallersGraphs, *timetable);
  return *timetable->limitsInGraphs;
}

ArenaKind CudaDevice::arenaOfFlags(TransferMode mode) const {
  return hasFlagsOnDevice(mode) ? ArenaKind::Symmetric : ArenaKind::Flags;
}

bool CudaDevice::isByKernel(const BatchedCommand &step, Tag tag, TransferMode mode) const {
  if (step.kind == CommandKind::Sum)
    return true;
  if (step.kind == CommandKind::Copy)
    return mode.copies == CopyBy::Kernel;
  if (hasFlagsOnDevice(mode))
    return true;
  const Timetable &timetable = timetableOf(tag.plan);
  if (isCountedBySteps(timetable) &&
      (capture_->isRunToBegin || timetable.lastSteps.contains(step.command)))
    return true;
  return mode.signals == SignalBy::Default && capture_ && !timetable.waitsByMemory;
}

/// While tracing, each step is issued by itself, so that each has a span.
void CudaDevice::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                            bool areDisjoint, TransferMode mode) {
  const bool isApart = isTracing_ && !capture_;
  while (!steps.empty() && !group_.isAborted()) {
    const CommandKind kind = steps.front().kind;
    const bool isKernel = isByKernel(steps.front(), tag, mode);
    size_t count = 1;
    while (!isApart && count < steps.size() && isByKernel(steps[count], tag, mode) == isKernel &&
           (isKernel || (kind != CommandKind::Copy && steps[count].kind != CommandKind::Copy)))
      ++count;
    Issuing issuing(*this, stream, tagOf(tag, steps.front()));
    if (isKernel)
      issueCopyAndSignal(stream, tag, steps.take_front(count), areDisjoint, mode);
    else if (kind == CommandKind::Copy)
      copyByEngine(stream, steps.front().dst, steps.front().src, steps.front().bytes);
    else
      issueMemoryOperations(stream, tag, steps.take_front(count));
    steps = steps.drop_front(count);
  }
}

void CudaDevice::copyByEngine(uint32_t stream, void *dst, const void *src, int64_t bytes) {
  if (bytes != 0)
    check(
        cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault, streamOf(stream)),
        "cudaMemcpyAsync");
}

void CudaDevice::launchSum(uint32_t stream, const SumArgs &args) {
  cuda::launchSum(streamOf(stream), cuda::sumOf(args));
  check(cudaGetLastError(), "launchSum");
}

void CudaDevice::issueMemoryOperations(uint32_t stream, Tag tag,
                                       llvm::ArrayRef<BatchedCommand> steps) {
  constexpr unsigned kMost = 96; // the driver takes 256
  std::array<CUstreamBatchMemOpParams, kMost> operations;
  unsigned count = 0;
  auto flush = [&] {
    check(driver_->streamBatchMemOp(streamOf(stream), count, operations.data(), 0),
          "cuStreamBatchMemOp");
    count = 0;
  };
  for (const BatchedCommand &step : steps) {
    if (count + 3 > kMost)
      flush();
    if (step.kind == CommandKind::Await)
      operations[count++] = waitUntilSet(step.flag);
    operations[count++] = writeOf(step.flag, step.kind == CommandKind::Signal ? 1 : 0);
    operations[count++] = writeOf(stepOf(stream, tag), number(stream, tagOf(tag, step)));
  }
  flush();
}

void CudaDevice::issueCopyAndSignal(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                                    bool areDisjoint, TransferMode mode) {
  const Timetable &timetable = timetableOf(tag.plan);
  const LaunchLimits &limits = limitsOf(tag);
  while (!steps.empty()) {
    if (steps.front().kind == CommandKind::Sum) {
      launchSum(stream, *steps.front().sum);
      steps = steps.drop_front();
      continue;
    }
    cuda::CopyAndSignal batch;
    batch.step = stepOf(stream, tag);
    batch.released = hasFlagsOnDevice(mode) ? released_ : nullptr;
    batch.fencesReadySignals = batch.fencesMoves = batch.released == nullptr;
    batch.counters = (capture_ ? timetable.ofGraphs.counters : copyAndSignalCounters_) +
                     stream * cuda::CopyAndSignal::kCounters;
    const size_t taken = addToCopyAndSignal(batch, stream, tag, steps, areDisjoint, mode, limits);
    if (isCountedBySteps(timetable)) {
      batch.guard = timetable.ofGraphs.guard;
      batch.beginsRun = std::exchange(capture_->isRunToBegin, false);
      batch.endsRun = llvm::any_of(steps.take_front(taken), [&](const BatchedCommand &step) {
        return step.command + 1 == timetable.lastSteps.end;
      });
    }
    steps = steps.drop_front(taken);
    cuda::launchCopyAndSignal(streamOf(stream), batch, limits.blocks, hasBulkCopies_);
    check(cudaGetLastError(), "launchCopyAndSignal");
  }
}

size_t CudaDevice::addToCopyAndSignal(cuda::CopyAndSignal &batch, uint32_t stream, Tag tag,
                                      llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                                      TransferMode mode, const LaunchLimits &limits) {
  const auto numberOf = [&](const BatchedCommand &step) {
    return number(stream, tagOf(tag, step));
  };
  cuda::LaunchFiller filler(batch,
                            {.haveCopies = areDisjoint,
                             .waitAndWork = !limits.waitsApart,
                             .add = mode.copies == CopyBy::Kernel,
                             .give = hasPeerAtomics_,
                             .blocks = limits.blocks},
                            numberOf);
  size_t taken = 0;
  while (taken < steps.size() && !filler.isFull() && filler.take(steps[taken]))
    ++taken;
  return taken;
}

} // namespace braid
