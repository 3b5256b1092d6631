//===- backends/cuda/cuda_device.h - one GPU --------------------------------------------------===//
//
// Each process drives a single GPU, because several GPUs in one process would share queues inside
// the driver, where a wait for a peer can block that peer's own work (backends/cuda/README.md).
//
// Each capability is a separate class: arithmetic, transfers, messages, graphs, tracing and timing.
// All of them issue commands to the streams of CudaStreams; CudaProgress tracks progress.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_compute.h"
#include "backends/cuda/cuda_messages.h"
#include "backends/cuda/cuda_transfers.h"

namespace braid {

class CudaDevice final : public Device {
public:
  struct Options {
    int64_t rank = 0;
    int device = 0;              ///< CUDA's device number
    bool isTuned = true;         ///< whether GEMM algorithms are measured
    bool mayShare = false;       ///< true if other ranks may use the same GPU
    bool isReproducible = false; ///< see ClusterOptions::reproducible
  };
  static Result<std::unique_ptr<CudaDevice>> create(ProcessGroup &group, const Options &options);
  ~CudaDevice() override;

  /// Returns the 16 bytes of the GPU's UUID.
  Result<std::string> uuid() const;
  std::string description() const override;
  std::string identity() const override;
  std::optional<int64_t> freeBytes() override;
  bool sharesHostMemory() const override { return false; }
  Compute &compute() override { return compute_; }
  PeerMemory *peerMemory() override { return &transfers_; }
  Messages *messages() override { return &messages_; }
  Graphs *graphs() override { return &graphs_; }
  Tracer *tracer() override { return &tracer_; }
  Stopwatch *stopwatch() override { return &stopwatch_; }

  Result<void *> allocate(ArenaKind kind, int64_t bytes) override;
  Status reserveStreams(uint32_t count) override;
  Result<uint32_t> createEvents(uint32_t count) override;
  Status registerPlan(const Plan &plan, TransferMode mode) override;
  int64_t planBytes(const Plan &plan) override;
  Result<void *> callerStream(uint32_t number) override;
  Status checkAddress(const void *data) override;
  void release(void *base) override { memory_.release(base); }
  void releaseEvents(uint32_t first) override { streams_.releaseEvents(first); }
  void releasePlan(const Plan &plan) override { releasedPlans_.push_back(&plan); }
  void recycle() override;
  int64_t heldBytes() override { return memory_.heldBytes(); }
  Status setCallerStream(void *stream, Tag) override { return graphs_.setCallerStream(stream); }
  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override;
  void record(uint32_t stream, Tag tag, uint32_t event) override;
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override;
  bool mark(int64_t number) override { return marks_.mark(number); }
  int64_t passedMarks() override { return marks_.passed(); }
  Status synchronize() override;

  // -- For the cluster. --

  /// Unmaps peers' memory.
  void closePeers();
  /// Closes NCCL, even after the job has been aborted.
  void closeMessages();
  /// Makes the destructor leak all resources, because streams still use them.
  void abandon() { gpu_.isAbandoned = true; }
  /// Ends all waits for peers on this GPU. Call repeatedly until the streams are empty, because an
  /// await that uses memory operations resets the released flag. Callable from any thread.
  void releaseWaits();
  /// Publishes the streams' progress in job memory, and returns any asynchronous error. Called by
  /// the watchdog.
  Status publish() { return progress_.publish(library_->error()); }
  /// Waits up to `grace` for the streams to become empty. Returns false on timeout.
  bool drain(std::chrono::milliseconds grace);

private:
  CudaDevice(ProcessGroup &group, const Options &options);
  Status start();
  void pause();
  Status growWorkspaces();
  void forgetPlan(const Plan *plan);

  const Options options_;
  Gpu gpu_;
  std::unique_ptr<nccl::NcclMessages> library_;
  /// true if the destructor must leak library_, because another thread may still use it
  bool keepsMessages_ = false;
  std::unique_ptr<Gemms> gemms_;
  CudaMemory memory_;
  CudaStreams streams_{gpu_};
  CudaProgress progress_{gpu_, streams_};
  CudaTracer tracer_{gpu_, streams_, progress_};
  CudaStopwatch stopwatch_{gpu_, streams_};
  CudaMarks marks_{gpu_, streams_};
  CudaGraphs graphs_{gpu_, streams_, progress_};
  CudaTransfers transfers_{gpu_, memory_, streams_, progress_, graphs_, tracer_};
  CudaCompute compute_;
  CudaMessages messages_;
  std::chrono::steady_clock::time_point waitingSince_; ///< start of the last synchronize()
  /// released Plans, which may still have runs in flight
  std::vector<const Plan *> releasedPlans_;
};

} // namespace braid
