//===- backends/cuda/cuda_graphs.cpp - graphs recorded by Braid and by callers ----------------===//

#include "backends/cuda/cuda_graphs.h"

#include "ir/failure.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace braid {
namespace {

struct CaptureInfo {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
};

/// The dependencies of the next node to be captured on a stream.
struct Dependencies {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges; ///< one for each node
};

// In CUDA 12, functions with edge data have a version suffix; in CUDA 13, all take edge data.
#if CUDART_VERSION < 13000
#define BRAID_EDGES(name, version) name##_v##version
#else
#define BRAID_EDGES(name, version) name
#endif

cudaError_t findDependencies(cudaStream_t stream, Dependencies &found) {
  CaptureInfo info;
  const cudaGraphNode_t *nodes = nullptr;
  const cudaGraphEdgeData *edges = nullptr;
  size_t count = 0;
  const cudaError_t code = BRAID_EDGES(cudaStreamGetCaptureInfo, 3)(
      stream, &info.status, &info.id, nullptr, &nodes, &edges, &count);
  if (code != cudaSuccess)
    return code;
  found.nodes.assign(nodes, nodes + count);
  found.edges.assign(count, cudaGraphEdgeData());
  if (edges)
    found.edges.assign(edges, edges + count);
  return code;
}

cudaError_t setDependencies(cudaStream_t stream, Dependencies &wanted) {
  return BRAID_EDGES(cudaStreamUpdateCaptureDependencies,
                     2)(stream, wanted.nodes.data(), wanted.edges.data(), wanted.nodes.size(),
                        cudaStreamSetCaptureDependencies);
}

Result<CaptureInfo> captureOf(cudaStream_t stream) {
  CaptureInfo info;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamGetCaptureInfo(stream, &info.status, &info.id));
  return info;
}

} // namespace

// -- Streams. --

Status CudaGraphs::start() {
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&recordingStream_, cudaStreamNonBlocking));
  return Status::ok();
}

CudaGraphs::~CudaGraphs() {
  if (gpu_.isAbandoned)
    return;
  destroyAll();
  for (const std::unique_ptr<Capture> &capture : captures_)
    for (size_t i = 1; i < capture->streams.size(); ++i)
      cudaStreamDestroy(capture->streams[i]);
  if (recordingStream_)
    cudaStreamDestroy(recordingStream_);
}

/// Queries one of Braid's own streams, because the caller's stream may no longer exist.
Result<bool> CudaGraphs::isOpen(const Capture &capture) {
  const CaptureInfo info = BRAID_TRY(captureOf(capture.streams[1]));
  return info.status != cudaStreamCaptureStatusNone;
}

/// Creates streams for later captures, so that a capture need not create any.
Status CudaGraphs::reserveCapture() {
  if (captures_.empty())
    captures_.push_back(std::make_unique<Capture>(Capture{0, {nullptr}}));
  for (const std::unique_ptr<Capture> &each : captures_) {
    if (each->streams.size() > 1 && BRAID_TRY(isOpen(*each)))
      return badInput("a stream is being captured, but the program has not been prepared: call "
                      "prepare() before starting the capture");
    BRAID_TRY(CudaStreams::grow(each->streams, std::max<size_t>(streams_.size(), 2)));
  }
  return Status::ok();
}

/// Returns the streams for capture `id`: the streams that it already uses, or else unused streams.
Result<CudaGraphs::Capture *> CudaGraphs::streamsFor(unsigned long long id) {
  Capture *free = nullptr;
  for (const std::unique_ptr<Capture> &each : captures_) {
    const bool isTaken = BRAID_TRY(isOpen(*each));
    if (isTaken && each->id == id)
      return each.get();
    if (!isTaken)
      free = each.get();
  }
  if (!free) {
    const RelaxedCapture relaxed;
    captures_.push_back(std::make_unique<Capture>(Capture{0, {nullptr}}));
    free = captures_.back().get();
    BRAID_TRY(CudaStreams::grow(free->streams, streams_.size() + 1));
  }
  free->id = id;
  free->streams[0] = nullptr;
  free->counts.clear();
  return free;
}

Status CudaGraphs::enterCapture(cudaStream_t origin, unsigned long long id) {
  Capture *capture = BRAID_TRY(streamsFor(id));
  cudaStream_t &current = capture->streams[0];
  if (current && current != origin) { // the capture's previous run was on another stream
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(streams_.handover(), current));
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(origin, streams_.handover(), 0));
  }
  current = origin;
  capture_ = capture;
  streams_.recordOn(&capture->streams);
  return Status::ok();
}

void CudaGraphs::leaveCapture() {
  capture_ = nullptr;
  streams_.recordOn(nullptr);
}

/// Eager work cannot be ordered after a stream that is being captured, and querying the stream
/// would invalidate the capture.
Status CudaGraphs::expectNoCapture() {
  if (!streams_.isFirstCaptured())
    return gpu_.group.failure();
  return badInput("the stream of the last run is being captured: end the capture before running on "
                  "another stream or waiting");
}

/// As in CUDA, a null stream means the default stream.
Status CudaGraphs::setCallerStream(void *stream) {
  gpu_.enter();
  const auto next = stream ? static_cast<cudaStream_t>(stream) : cudaStreamLegacy;
  if (capture_)
    leaveCapture();
  BRAID_TRY(gpu_.group.failure());
  const CaptureInfo capture = BRAID_TRY(captureOf(next));
  if (capture.status == cudaStreamCaptureStatusActive)
    return enterCapture(next, capture.id);
  if (capture.status == cudaStreamCaptureStatusInvalidated)
    return badInput("the stream capture was invalidated by an earlier call");
  if (next == streams_.first())
    return Status::ok();
  BRAID_TRY(expectNoCapture());
  streams_.replaceFirst(next);
  return Status::ok();
}

// -- Runs in the caller's graphs. --

namespace {

using Count = std::shared_ptr<std::atomic<int64_t>>;

/// Called by a CUDA thread once the graph and all its instances have been destroyed.
void uncountGraph(void *count) {
  const std::unique_ptr<Count> held(static_cast<Count *>(count));
  --**held;
}

} // namespace

/// Counts the graph of the open capture unless it is already counted. Uses a user object, because
/// there is no other way to detect the destruction of a graph.
Status CudaGraphs::countGraph(const GraphCount &count) {
  if (llvm::is_contained(capture_->counts, count.get()))
    return Status::ok();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaStreamGetCaptureInfo(capture_->streams[0], &status, nullptr, &graph));
  auto held = std::make_unique<Count>(count);
  cudaUserObject_t object = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaUserObjectCreate(&object, held.get(), uncountGraph, 1, cudaUserObjectNoDestructorSync));
  ++*count;
  (void)held.release(); // now owned by uncountGraph()
  capture_->counts.push_back(count.get());
  BRAID_CUDA_RETURN_IF_ERROR(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  return Status::ok();
}

int64_t CudaGraphs::callersGraphs() {
  constexpr std::chrono::milliseconds kPatience{20};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (*callersGraphs_ > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return *callersGraphs_;
}

bool CudaGraphs::isInCallersGraph(const Plan &plan) {
  const RegisteredPlan *registered = progress_.find(&plan);
  return registered && *registered->callersGraphs > 0;
}

/// Calls `fn` for each side stream that a recorded run uses, even if the stream only signals,
/// because a capture must join all streams. Includes stream 1, which isOpen() queries.
template <class Fn> void CudaGraphs::forSideStreams(const RegisteredPlan &plan, Fn fn) {
  for (uint32_t stream = 1; stream < std::max<size_t>(plan.isUsed.size(), 2); ++stream)
    if (stream == 1 || plan.isUsed[stream])
      fn(capture_->streams[stream]);
}

/// Replaces the side streams' dependencies with those of the first stream. An event wait would
/// instead add dependencies, and leave redundant dependencies on earlier runs in this capture.
void CudaGraphs::forkStreams(const RegisteredPlan &plan) {
  Dependencies before;
  gpu_.check(findDependencies(capture_->streams[0], before), "cudaStreamGetCaptureInfo");
  capture_->forkedFrom = before.nodes;
  gpu_.check(cudaEventRecord(streams_.handover(), capture_->streams[0]), "cudaEventRecord");
  forSideStreams(plan, [&](cudaStream_t stream) {
    gpu_.check(cudaStreamWaitEvent(stream, streams_.handover(), 0), "cudaStreamWaitEvent");
    if (!before.nodes.empty())
      gpu_.check(setDependencies(stream, before), "cudaStreamUpdateCaptureDependencies");
  });
}

/// Every node of a run follows the nodes from which its streams were forked, so a node that follows
/// another node of the run need not depend on the fork directly. Redundant edges create branches in
/// the graph, and resuming after a branch takes 1 to 2 us.
void CudaGraphs::dropForkedFrom(cudaStream_t stream) {
  Dependencies all, kept;
  gpu_.check(findDependencies(stream, all), "cudaStreamGetCaptureInfo");
  for (size_t i = 0; i < all.nodes.size(); ++i)
    if (!llvm::is_contained(capture_->forkedFrom, all.nodes[i])) {
      kept.nodes.push_back(all.nodes[i]);
      kept.edges.push_back(all.edges[i]);
    }
  if (!kept.nodes.empty() && kept.nodes.size() < all.nodes.size())
    gpu_.check(setDependencies(stream, kept), "cudaStreamUpdateCaptureDependencies");
}

void CudaGraphs::joinStreams(const RegisteredPlan &plan) {
  cudaStream_t origin = capture_->streams[0];
  forSideStreams(plan, [&](cudaStream_t stream) { streams_.putBehind(stream, origin); });
  dropForkedFrom(origin);
}

/// Eager runs are ordered on each stream that they use. A replay is ordered only on the first
/// stream, regardless of which streams its graph uses, so this function and launch() order eager
/// runs and replays relative to each other. `mayBeOne` is true if the last run may be in a caller's
/// graph, whose launches Braid cannot observe.
void CudaGraphs::beginBehindReplays(bool mayBeOne) {
  if (!wasReplay_ && !mayBeOne)
    return;
  wasReplay_ = false;
  gpu_.enter();
  streams_.putAllBehindFirst();
}

void CudaGraphs::beginRun(Tag tag) {
  if (!capture_)
    progress_.note(tag)->countBegun(1);
  if (!capture_ && !hasCallersGraphs_)
    return beginBehindReplays(false);
  gpu_.enter();
  RegisteredPlan &plan = *progress_.find(tag.plan);
  if (!capture_)
    beginBehindReplays(plan.isInCallersGraph);
  if (isInCallersCapture()) {
    plan.isInCallersGraph = hasCallersGraphs_ = true;
    plan.steps.run.store(std::max(tag.run, 1u), std::memory_order_relaxed); // 0 means no run
    for (const GraphCount &count : {callersGraphs_, plan.callersGraphs})
      if (Status status = countGraph(count); !status.isOk())
        gpu_.group.abort(status);
  }
  if (capture_)
    forkStreams(plan);
  if (plan.isInCallersGraph && !isRecording_) {
    if (!capture_)
      plan.guarded.fetch_add(1, std::memory_order_relaxed);
    if (isCountedBySteps(plan)) {
      capture_->isRunToBegin = true;
      return;
    }
    cuda::launchRunBegin(streams_.of(0), plan.ofGraphs.guard);
    gpu_.check(cudaGetLastError(), "launchRunBegin");
  }
}

void CudaGraphs::endRun(Tag tag) {
  if (!capture_ && !hasCallersGraphs_)
    return;
  gpu_.enter();
  const RegisteredPlan &plan = *progress_.find(tag.plan);
  if (capture_)
    joinStreams(plan);
  else if (plan.isInCallersGraph)
    streams_.putFirstBehindAll();
  if (plan.isInCallersGraph && !isRecording_ && !isCountedBySteps(plan)) {
    cuda::launchRunEnd(streams_.of(0), plan.ofGraphs.guard);
    gpu_.check(cudaGetLastError(), "launchRunEnd");
  }
  if (isInCallersCapture())
    leaveCapture();
}

// -- Braid's own graphs. --

Status CudaGraphs::beginCapture() {
  BRAID_TRY(gpu_.group.failure());
  gpu_.enter();
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaStreamBeginCapture(recordingStream_, cudaStreamCaptureModeThreadLocal));
  isRecording_ = true;
  const Result<CaptureInfo> capture = captureOf(recordingStream_);
  Status status = capture ? enterCapture(recordingStream_, capture->id) : capture.status();
  if (status.isOk())
    return status;
  leaveCapture();
  isRecording_ = false;
  cudaGraph_t nothing = nullptr;
  if (cudaStreamEndCapture(recordingStream_, &nothing) == cudaSuccess)
    cudaGraphDestroy(nothing);
  return status;
}

static Status uploadGraph(cudaGraphExec_t graph, cudaStream_t stream) {
  BRAID_CUDA_RETURN_IF_ERROR(cudaGraphUpload(graph, stream));
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
  return Status::ok();
}

Result<uint32_t> CudaGraphs::endCapture() {
  gpu_.enter();
  leaveCapture();
  isRecording_ = false;
  cudaGraph_t graph = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamEndCapture(recordingStream_, &graph));
  destroyReleased();
  cudaGraphExec_t executable = nullptr;
  cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (code != cudaSuccess)
    return cudaFailure(code, "cudaGraphInstantiate");
  if (Status status = uploadGraph(executable, recordingStream_); !status.isOk()) {
    cudaGraphExecDestroy(executable);
    return status;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(graphs_.size()));
    graphs_.push_back(nullptr);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  graphs_[number] = executable;
  return number;
}

/// CUDA defers the destruction of a graph that is still running.
void CudaGraphs::destroyReleased() {
  for (uint32_t graph : released_) {
    gpu_.check(cudaGraphExecDestroy(graphs_[graph]), "cudaGraphExecDestroy");
    graphs_[graph] = nullptr;
    free_.push_back(graph);
  }
  released_.clear();
}

void CudaGraphs::destroyAll() {
  for (cudaGraphExec_t &graph : graphs_)
    if (cudaGraphExec_t gone = std::exchange(graph, nullptr))
      cudaGraphExecDestroy(gone);
}

uint64_t CudaGraphs::allocationOf(const void *address) {
  unsigned long long number = 0;
  const CUresult code = gpu_.driver->pointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                                         reinterpret_cast<CUdeviceptr>(address));
  return code == CUDA_SUCCESS ? number : 0;
}

void CudaGraphs::launch(uint32_t graph, Tag tag) {
  if (gpu_.group.isAborted())
    return;
  gpu_.enter();
  if (!wasReplay_)
    streams_.putFirstBehindAll();
  wasReplay_ = true;
  streams_.markBusy(0);
  RegisteredPlan *plan = progress_.note(tag);
  const bool tellsItself = plan && !plan->isReportedBehind();
  if (plan)
    plan->steps.run.store(tag.run, std::memory_order_relaxed);
  if (tellsItself)
    plan->isLaunched.store(true, std::memory_order_relaxed);
  gpu_.check(cudaGraphLaunch(graphs_[graph], streams_.first()), "cudaGraphLaunch");
  if (plan && !tellsItself)
    progress_.reportReplay(*plan, tag.run);
}

} // namespace braid
