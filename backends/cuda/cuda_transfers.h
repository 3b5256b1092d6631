//===- backends/cuda/cuda_transfers.h - copies, signals and awaits on one GPU -----------------===//
//
// Flags that memory operations await are in host memory that the GPUs of both ranks can access. The
// host can therefore release a wait with a plain store, regardless of the state of the GPU's
// queues. Flags in device memory would not allow this: in a test with forty waiting streams, a
// write that was issued to another stream was never executed. A signal through host memory is no
// slower (8.6 us one way, versus 10.4 us through device memory). Kernels, in contrast, can poll two
// locations: if kernels execute all signals and awaits, flags are in device memory, and a word in
// host memory releases the waits.
//
// A flag is 0 or 1: a signal stores 1; an await waits for 1, then stores 0. Captured graphs
// therefore do not depend on the run number, and eager runs and replays can share flags. Reusing a
// flag is safe because the next run's signal never arrives before this run's await has completed,
// which the checker proves for every program.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_graphs.h"
#include "backends/cuda/cuda_trace.h"

namespace braid {

/// Maps peers' memory, and issues batches of copies, signals and awaits.
class CudaTransfers final : public PeerMemory {
public:
  CudaTransfers(const Gpu &gpu, CudaMemory &memory, const CudaStreams &streams,
                CudaProgress &progress, CudaGraphs &graphs, CudaTracer &tracer)
      : gpu_(gpu), memory_(memory), streams_(streams), progress_(progress), graphs_(graphs),
        tracer_(tracer) {}
  ~CudaTransfers() override;
  Status start();

  /// Computes how many multiprocessors the Plan's waiting kernels need. Fails with Unsupported if
  /// too many streams need waiting kernels.
  Status planWaiting(TransferMode mode, RegisteredPlan &plan) const;
  void reserveWaiting(RegisteredPlan &plan);
  void releaseWaiting(const RegisteredPlan &plan);
  /// Ends every wait for a flag on this GPU's streams. Makes no CUDA calls. Callable from any
  /// thread.
  void releaseWaits();
  void copyByEngine(uint32_t stream, void *dst, const void *src, int64_t bytes) const;

  bool countsRuns() const override { return false; }
  bool offers(TransferMode) const override { return true; }
  ArenaKind arenaOfFlags(TransferMode mode) const override;
  Result<void *> allocateFrom(MemoryFrom from, int64_t bytes) override {
    return memory().allocateFrom(from, bytes);
  }
  Result<std::string> exportMemory(void *base) override { return memory().exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return memory().open(peer, handle);
  }
  std::string unusedMemory(bool isAll) override { return memory_.unusedMemory(isAll); }
  void closeUnused(int64_t peer, const std::string &unused) override {
    memory().closeUnused(peer, unused);
  }
  void freeUnused() override { memory().freeUnused(); }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override;

private:
  CudaMemory &memory() const {
    gpu_.enter();
    return memory_;
  }
  WaitingBudget &budget() const { return WaitingBudget::ofDevice(gpu_.number, processors_); }
  LaunchLimits reserve(WaitingBudget::Lane lane, const RegisteredPlan &plan);
  const LaunchLimits &limitsOf(Tag tag);
  bool isByKernel(const BatchedCommand &step, Tag tag, TransferMode mode) const;
  void issueMemoryOperations(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps);
  void issueCopyAndSignal(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                          bool areDisjoint, TransferMode mode);
  size_t addToCopyAndSignal(cuda::CopyAndSignal &batch, uint32_t stream, Tag tag,
                            llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                            const LaunchLimits &limits);

  const Gpu &gpu_;
  CudaMemory &memory_;
  const CudaStreams &streams_;
  CudaProgress &progress_;
  CudaGraphs &graphs_;
  CudaTracer &tracer_;
  uint32_t *released_ = nullptr; ///< once nonzero, kernels stop waiting
  uint32_t *counters_ = nullptr; ///< kCounters entries for each of kMaxPlanStreams streams
  bool hasBulkCopies_ = false;   ///< true if the GPU has a bulk copy unit
  bool hasPeerAtomics_ = false;  ///< true if the GPU can perform atomics on flags in peers' memory
  int processors_ = 0;
};

} // namespace braid
