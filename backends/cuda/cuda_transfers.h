//===- backends/cuda/cuda_transfers.h - copies, signals and awaits of one GPU -----------------===//
//
// Flags that memory operations wait for lie in host memory that the GPUs of both ranks reach. A
// wait on such a flag can be ended by the host with a plain store, whatever the GPU's queues are
// stuck in; on device memory it cannot: with forty streams waiting, a write from one more never
// ran. And a signal through host memory is no slower (8.6 against 10.4 us one way). Kernels that
// wait can look at two places: where all signals are by kernels, flags lie in device memory, and a
// flag in host memory ends the waits.
//
// A flag is 0 or 1: a signal stores 1, an await waits for that and stores 0. So nothing in a
// captured graph depends on the number of the run, and eager runs and replays share their flags. It
// is safe because the signal of the next run never comes before the await of this one has passed;
// the checker proves that for every program.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_graphs.h"
#include "backends/cuda/cuda_trace.h"

namespace braid {

/// The memory of peers, and the command batches that move data there.
class CudaTransfers final : public PeerMemory {
public:
  CudaTransfers(const Gpu &gpu, CudaMemory &memory, const CudaStreams &streams,
                CudaProgress &progress, CudaGraphs &graphs, CudaTracer &tracer)
      : gpu_(gpu), memory_(memory), streams_(streams), progress_(progress), graphs_(graphs),
        tracer_(tracer) {}
  ~CudaTransfers() override;
  Status start();

  /// Reserves multiprocessors for a Plan's kernels that wait for peers, which must leave room for
  /// what the peers wait for. Unsupported if there are too many streams for kernels that wait.
  Status planWaiting(TransferMode mode, RegisteredPlan &plan) const;
  void reserveWaiting(RegisteredPlan &plan);
  void releaseWaiting(const RegisteredPlan &plan);
  /// Ends every wait of this GPU's streams for a flag. Any thread; only stores to memory.
  void releaseWaits();
  void copyByEngine(uint32_t stream, void *dst, const void *src, int64_t bytes) const;

  bool countsRuns() const override { return false; }
  bool offers(TransferMode) const override { return true; }
  ArenaKind arenaOfFlags(TransferMode mode) const override;
  Result<std::vector<void *>> allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t> bytes,
                                           ControlPlane &control) override {
    return memory().allocateFrom(from, bytes, control);
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
                            TransferMode mode, const LaunchLimits &limits);

  const Gpu &gpu_;
  CudaMemory &memory_;
  const CudaStreams &streams_;
  CudaProgress &progress_;
  CudaGraphs &graphs_;
  CudaTracer &tracer_;
  uint32_t *released_ = nullptr; ///< not 0: kernels wait no longer
  uint32_t *counters_ = nullptr; ///< CopyAndSignal::kCounters for each of kMaxPlanStreams
  bool hasBulkCopies_ = false;   ///< the GPU has a bulk copy unit
  bool hasPeerAtomics_ = false;  ///< it adds to flags in the memory of peers
  int processors_ = 0;
};

} // namespace braid
