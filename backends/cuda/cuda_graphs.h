//===- backends/cuda/cuda_graphs.h - graphs recorded by Braid and by callers ------------------===//
//
// Commands are issued either to eager streams or to the streams of a capture, which only record the
// commands. An eager run may therefore be issued while a caller's capture is open, and two captures
// may be open at once. Eager streams and capture streams never wait for each other's events.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_progress.h"

namespace braid {

/// Records and launches Braid's graphs, and lets callers capture runs in their own graphs.
class CudaGraphs final : public Graphs {
public:
  CudaGraphs(const Gpu &gpu, CudaStreams &streams, CudaProgress &progress)
      : gpu_(gpu), streams_(streams), progress_(progress) {}
  ~CudaGraphs() override;
  Status start();
  /// Ensures that captures have as many streams as eager runs. Called during preparation.
  Status reserveCapture();

  /// Implements Device::setCallerStream.
  Status setCallerStream(void *stream);
  /// Fails with BadInput if the stream of the last run is being captured.
  Status expectNoCapture();
  Status beginCapture() override;
  Result<uint32_t> endCapture() override;
  void launch(uint32_t graph, Tag tag) override;
  void releaseGraph(uint32_t graph) override { released_.push_back(graph); }
  void destroyReleased();
  void destroyAll();
  uint64_t allocationOf(const void *address) override;
  void leaveCallersCapture() override {
    if (isInCallersCapture())
      leaveCapture();
  }
  bool isInCallersCapture() const override { return capture_ && !isRecording_; }
  int64_t callersGraphs() override;
  bool isInCallersGraph(const Plan &plan) override;
  void beginRun(Tag tag) override;
  void endRun(Tag tag) override;

  /// Returns true if this run is in a caller's graph and is counted by its own signal and wait
  /// kernels.
  bool isCountedBySteps(const RegisteredPlan &plan) const {
    return isInCallersCapture() && plan.lastSteps.end != 0;
  }
  /// Returns true if the start of the captured run has not been counted yet, so that the next
  /// kernel that signals or waits must count it.
  bool isRunToBegin() const { return capture_->isRunToBegin; }
  bool takeRunToBegin() { return std::exchange(capture_->isRunToBegin, false); }
  /// Drops the stream's dependencies on the nodes in forkedFrom if the stream also depends on a
  /// node of the run.
  void dropForkedFrom(cudaStream_t stream);

private:
  /// The streams of a capture; the first is the caller's stream or recordingStream_.
  struct Capture {
    unsigned long long id = 0; ///< CUDA's capture id
    std::vector<cudaStream_t> streams;
    std::vector<const std::atomic<int64_t> *> counts = {}; ///< counters that include the graph
    std::vector<cudaGraphNode_t> forkedFrom = {};          ///< nodes that precede the run
    bool isRunToBegin = false;
  };
  static Result<bool> isOpen(const Capture &capture);
  Status countGraph(const GraphCount &count);
  Result<Capture *> streamsFor(unsigned long long id);
  Status enterCapture(cudaStream_t origin, unsigned long long id);
  void leaveCapture();
  template <class Fn> void forSideStreams(const RegisteredPlan &plan, Fn fn);
  void forkStreams(const RegisteredPlan &plan);
  void joinStreams(const RegisteredPlan &plan);
  void beginBehindReplays(bool mayBeOne);

  const Gpu &gpu_;
  CudaStreams &streams_;
  CudaProgress &progress_;
  std::vector<std::unique_ptr<Capture>> captures_;
  Capture *capture_ = nullptr; ///< the capture that records commands; null if commands are executed
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<uint32_t> released_;         ///< graphs to destroy, which may still be running
  std::vector<uint32_t> free_;             ///< unused graph numbers
  cudaStream_t recordingStream_ = nullptr; ///< records Braid's own graphs
  bool isRecording_ = false;               ///< true while Braid records its own graph
  bool wasReplay_ = false;                 ///< true if the last run was a replay
  bool hasCallersGraphs_ = false;          ///< true if a caller's graph has ever contained a run
  const GraphCount callersGraphs_ = std::make_shared<std::atomic<int64_t>>(0);
};

} // namespace braid
