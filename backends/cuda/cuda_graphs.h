//===- backends/cuda/cuda_graphs.h - graphs, our own and the caller's -------------------------===//
//
// Commands go to the streams of eager runs, or to those of a capture, on which nothing ever runs:
// an eager run may be issued while a caller has a capture open, and two captures may be open at
// once. No event of one side is awaited on the other.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_progress.h"

namespace braid {

/// Captures and replays, and the runs of which both consist.
class CudaGraphs final : public Graphs {
public:
  CudaGraphs(const Gpu &gpu, CudaStreams &streams, CudaProgress &progress)
      : gpu_(gpu), streams_(streams), progress_(progress) {}
  ~CudaGraphs() override;
  Status start();
  /// While preparing, so that a capture finds as many streams as eager runs have.
  Status reserveCapture();

  /// As Device::setCallerStream.
  Status setCallerStream(void *stream);
  /// BadInput if the caller's stream is being captured.
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

  /// True if kernels that signal or wait for peers count a run in a caller's graph.
  bool isCountedBySteps(const RegisteredPlan &plan) const {
    return isInCallersCapture() && plan.lastSteps.end != 0;
  }
  /// The first kernel that signals or waits counts the run of this capture.
  bool isRunToBegin() const { return capture_->isRunToBegin; }
  bool takeRunToBegin() { return std::exchange(capture_->isRunToBegin, false); }
  /// The stream follows a node of the run, and no longer follows what the run was forked from.
  void dropForkedFrom(cudaStream_t stream);

private:
  /// The streams of a capture; the first is the caller's, or recordingStream_.
  struct Capture {
    unsigned long long id = 0; ///< CUDA's
    std::vector<cudaStream_t> streams;
    std::vector<const std::atomic<int64_t> *> counts = {}; ///< that count its graph
    std::vector<cudaGraphNode_t> forkedFrom = {}; ///< nodes that the run's streams wait for
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
  Capture *capture_ = nullptr; ///< that commands are recorded in; null: they run
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<uint32_t> released_;         ///< to be destroyed; they may still run
  std::vector<uint32_t> free_;             ///< numbers of graphs that are no more
  cudaStream_t recordingStream_ = nullptr; ///< records Braid's own graphs
  bool isRecording_ = false;               ///< one of them
  bool wasReplay_ = false;                 ///< the last run was one
  bool hasCallersGraphs_ = false;          ///< some Plan has runs in some
  const GraphCount callersGraphs_ = std::make_shared<std::atomic<int64_t>>(0);
};

} // namespace braid
