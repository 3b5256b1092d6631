//===- backends/cuda/cuda_capture.cpp - graphs, our own and the caller's ----------------------===//
//
// Commands go to the streams of eager runs, or to those of a capture, on which nothing ever runs:
// an eager run may be issued while a caller has a capture open, and two captures may be open at
// once. No event of one side is awaited on the other. What runs of graphs use while they run
// (workspaces of GEMMs, counters of kernels) belongs to the program, because a caller may replay a
// graph beside other programs.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/cuda_device.h"
#include "ir/failure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace braid {
namespace {

struct CaptureInfo {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
};

/// The nodes that the next one of a stream in a capture will follow.
struct Dependencies {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges; ///< the data of each edge
};

// CUDA 13 gave these functions, which know of edges, the names of those that do not.
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

/// Lets this thread create streams while it captures one.
class RelaxedCapture {
public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace

// -- Streams. --

/// Before whatever else the process has on its GPU: peers wait for what these streams do.
Result<cudaStream_t> CudaDevice::createStream() {
  int least = 0, greatest = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return stream;
}

Status CudaDevice::growStreams(std::vector<cudaStream_t> &streams, size_t count) {
  while (streams.size() < count)
    streams.push_back(BRAID_TRY(createStream()));
  return Status::ok();
}

/// One of our own streams tells, for the caller's may be gone.
Result<bool> CudaDevice::isOpen(const Capture &capture) {
  const CaptureInfo info = BRAID_TRY(captureOf(capture.streams[1]));
  return info.status != cudaStreamCaptureStatusNone;
}

/// While preparing, so that a capture finds streams.
Status CudaDevice::reserveCapture() {
  if (captures_.empty())
    captures_.push_back(std::make_unique<Capture>(Capture{0, {nullptr}}));
  for (const std::unique_ptr<Capture> &each : captures_) {
    if (each->streams.size() > 1 && BRAID_TRY(isOpen(*each)))
      return badInput("a stream is being captured, but the program is not prepared: call prepare() "
                      "before the capture begins");
    BRAID_TRY(growStreams(each->streams, std::max<size_t>(streams_.size(), 2)));
  }
  return Status::ok();
}

/// The streams for the capture of that number: those that it has, or some that no capture has.
Result<CudaDevice::Capture *> CudaDevice::streamsFor(unsigned long long id) {
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
    BRAID_TRY(growStreams(free->streams, streams_.size() + 1));
  }
  free->id = id;
  free->streams[0] = nullptr;
  free->counts.clear();
  return free;
}

Status CudaDevice::enterCapture(cudaStream_t origin, unsigned long long id) {
  Capture *capture = BRAID_TRY(streamsFor(id));
  cudaStream_t &current = capture->streams[0];
  if (current && current != origin) { // the run before it in this graph
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventRecord(handover_, current));
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(origin, handover_, 0));
  }
  current = origin;
  capture_ = capture;
  isRecorded_.assign(isRecorded_.size(), false);
  return Status::ok();
}

void CudaDevice::leaveCapture() {
  capture_ = nullptr;
  isRecorded_.assign(isRecorded_.size(), false);
}

/// Nothing can be ordered behind a stream that is being captured, and asking it spoils the capture.
Status CudaDevice::expectNoCapture() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(streams_[0], &status);
  if (code == cudaErrorStreamCaptureImplicit) { // CUDA's default stream, in the capture of another
    (void)cudaGetLastError();
    status = cudaStreamCaptureStatusActive;
  } else {
    check(code, "cudaStreamIsCapturing");
  }
  if (status == cudaStreamCaptureStatusNone)
    return group_.failure();
  return badInput("the stream of the last run is being captured: end the capture before a run on "
                  "another stream, and before waiting");
}

/// Work that is on the old stream still precedes later runs, because these are issued to the same
/// streams of their Plan. A null stream is CUDA's default stream, as everywhere.
Status CudaDevice::setCallerStream(void *stream, Tag) {
  enter();
  const auto next = stream ? static_cast<cudaStream_t>(stream) : cudaStreamLegacy;
  if (capture_)
    leaveCapture();
  BRAID_TRY(group_.failure());
  const CaptureInfo capture = BRAID_TRY(captureOf(next));
  if (capture.status == cudaStreamCaptureStatusActive)
    return enterCapture(next, capture.id);
  if (capture.status == cudaStreamCaptureStatusInvalidated)
    return badInput("the capture of the stream is invalid: an earlier call spoilt it");
  if (next == streams_[0])
    return Status::ok();
  BRAID_TRY(expectNoCapture());
  putBehind(streams_[0], next);
  streams_[0] = next;
  isDirty_[0] = true;
  return Status::ok();
}

// -- Runs in the caller's graphs. --

namespace {

using Count = std::shared_ptr<std::atomic<int64_t>>;

/// Called by a thread of CUDA's, when the graph and all that was instantiated of it are gone.
void uncountGraph(void *count) {
  const std::unique_ptr<Count> held(static_cast<Count *>(count));
  --**held;
}

} // namespace

/// The graph of the open capture, once. Whoever destroys it does not tell.
Status CudaDevice::countGraph(const GraphCount &count) {
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
  (void)held.release(); // uncountGraph() has it
  capture_->counts.push_back(count.get());
  BRAID_CUDA_RETURN_IF_ERROR(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  return Status::ok();
}

int64_t CudaDevice::callersGraphs() {
  constexpr std::chrono::milliseconds kPatience{20};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (*callersGraphs_ > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return *callersGraphs_;
}

bool CudaDevice::isInCallersGraph(const Plan &plan) {
  const Timetable *timetable = findTimetable(&plan);
  return timetable && *timetable->callersGraphs > 0;
}

/// Visits the side streams that a recorded run uses, and the stream that shows whether the capture
/// is open. A program may leave a stream that only signals unordered.
template <class Fn> void CudaDevice::forSideStreams(const Timetable &timetable, Fn fn) {
  for (uint32_t stream = 1; stream < std::max<size_t>(timetable.isUsed.size(), 2); ++stream)
    if (stream == 1 || timetable.isUsed[stream])
      fn(capture_->streams[stream]);
}

/// Work that is issued to `next` from now on waits for the work on `first`.
void CudaDevice::putBehind(cudaStream_t first, cudaStream_t next) {
  check(cudaEventRecord(handover_, first), "cudaEventRecord");
  check(cudaStreamWaitEvent(next, handover_, 0), "cudaStreamWaitEvent");
}

/// A side stream that an earlier run of this capture has used would go on from there, too, though
/// what it is forked from is behind all of that.
void CudaDevice::forkStreams(const Timetable &timetable) {
  Dependencies before;
  check(findDependencies(capture_->streams[0], before), "cudaStreamGetCaptureInfo");
  capture_->forkedFrom = before.nodes;
  check(cudaEventRecord(handover_, capture_->streams[0]), "cudaEventRecord");
  forSideStreams(timetable, [&](cudaStream_t stream) {
    check(cudaStreamWaitEvent(stream, handover_, 0), "cudaStreamWaitEvent");
    if (!before.nodes.empty())
      check(setDependencies(stream, before), "cudaStreamUpdateCaptureDependencies");
  });
}

/// All that a run issues is behind what its streams were forked from, so whatever follows a node of
/// the run need not follow that, too. A graph with such edges has branches, and takes 1 to 2 us to
/// go on from where they begin.
void CudaDevice::dropForkedFrom(cudaStream_t stream) {
  Dependencies all, kept;
  check(findDependencies(stream, all), "cudaStreamGetCaptureInfo");
  for (size_t i = 0; i < all.nodes.size(); ++i)
    if (!llvm::is_contained(capture_->forkedFrom, all.nodes[i])) {
      kept.nodes.push_back(all.nodes[i]);
      kept.edges.push_back(all.edges[i]);
    }
  if (!kept.nodes.empty() && kept.nodes.size() < all.nodes.size())
    check(setDependencies(stream, kept), "cudaStreamUpdateCaptureDependencies");
}

void CudaDevice::joinStreams(const Timetable &timetable) {
  cudaStream_t origin = capture_->streams[0];
  forSideStreams(timetable, [&](cudaStream_t stream) { putBehind(stream, origin); });
  dropForkedFrom(origin);
}

/// A stream of ours keeps the order of the runs that are issued to it. A replay is on the first one
/// alone, whatever its graph does, so where a replay follows or is followed by a run of the other
/// kind, that order is made here. `mayBeOne`: the last run may have been one of a graph of the
/// caller's, whose launches nobody tells.
void CudaDevice::beginBehindReplays(bool mayBeOne) {
  if (!wasReplay_ && !mayBeOne)
    return;
  wasReplay_ = false;
  enter();
  check(cudaEventRecord(handover_, streams_[0]), "cudaEventRecord");
  for (size_t stream = 1; stream < streams_.size(); ++stream)
    check(cudaStreamWaitEvent(streams_[stream], handover_, 0), "cudaStreamWaitEvent");
}

/// Orders the replay after work that earlier runs left on other streams. The first stream need not
/// have waited for it.
void CudaDevice::putReplayBehindRuns() {
  for (size_t stream = 1; stream < streams_.size(); ++stream)
    if (isDirty_[stream])
      putBehind(streams_[stream], streams_[0]);
}

void CudaDevice::countBegun(const Timetable &timetable, uint64_t runs) {
  if (timetable.begunRuns)
    timetable.begunRuns->fetch_add(runs, std::memory_order_relaxed);
}

/// The guard counts all runs that it sees: what the host told it of, and those of the caller's
/// graphs, which only the GPU sees.
void CudaDevice::countCallersRuns(Timetable &timetable) {
  const uint32_t begun = look(timetable.ofGraphs.guard.report->begun);
  std::atomic_thread_fence(std::memory_order_acquire); // the host tells before it launches
  const uint32_t told = timetable.guarded.load(std::memory_order_relaxed);
  const auto ofCallers = static_cast<int32_t>(begun - told);
  const int32_t more = ofCallers - static_cast<int32_t>(timetable.ofCallers);
  if (more <= 0)
    return; // what the host told of may not have begun
  timetable.ofCallers += static_cast<uint32_t>(more);
  countBegun(timetable, static_cast<uint64_t>(more));
}

void CudaDevice::beginRun(Tag tag) {
  if (!capture_)
    countBegun(*note(tag), 1);
  if (!capture_ && !hasCallersGraphs_)
    return beginBehindReplays(false);
  enter();
  Timetable &timetable = *findTimetable(tag.plan);
  if (!capture_)
    beginBehindReplays(timetable.isInCallersGraph);
  if (isInCallersCapture()) {
    timetable.isInCallersGraph = hasCallersGraphs_ = true;
    timetable.steps.run.store(std::max(tag.run, 1u), std::memory_order_relaxed); // 0 is none
    for (const GraphCount &count : {callersGraphs_, timetable.callersGraphs})
      if (Status status = countGraph(count); !status.isOk())
        group_.abort(status);
  }
  if (capture_)
    forkStreams(timetable);
  if (timetable.isInCallersGraph && !isRecording_) {
    if (!capture_)
      timetable.guarded.fetch_add(1, std::memory_order_relaxed);
    if (isCountedBySteps(timetable)) {
      capture_->isRunToBegin = true;
      return;
    }
    cuda::launchRunBegin(streamOf(0), timetable.ofGraphs.guard);
    check(cudaGetLastError(), "launchRunBegin");
  }
}

/// Its last signal or await, and those right in front of it on the same stream.
CudaDevice::StepRange CudaDevice::lastStepsOf(const Plan &plan) {
  const auto isStepAt = [&](uint32_t i) {
    return plan.commands[i].kind == CommandKind::Signal ||
           plan.commands[i].kind == CommandKind::Await;
  };
  StepRange range;
  range.end = static_cast<uint32_t>(plan.commands.size());
  while (range.end > 0 && !isStepAt(range.end - 1))
    --range.end;
  range.begin = range.end;
  while (range.begin > 0 && isStepAt(range.begin - 1) &&
         plan.commands[range.begin - 1].stream == plan.commands[range.end - 1].stream)
    --range.begin;
  return range;
}

void CudaDevice::endRun(Tag tag) {
  if (!capture_ && !hasCallersGraphs_)
    return;
  enter();
  const Timetable &timetable = *findTimetable(tag.plan);
  if (capture_)
    joinStreams(timetable);
  else if (timetable.isInCallersGraph)
    putReplayBehindRuns();
  if (timetable.isInCallersGraph && !isRecording_ && !isCountedBySteps(timetable)) {
    cuda::launchRunEnd(streamOf(0), timetable.ofGraphs.guard);
    check(cudaGetLastError(), "launchRunEnd");
  }
  if (isInCallersCapture())
    leaveCapture();
}

namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

} // namespace

/// Bytes that the GEMMs of each stream need, as they would be computed now.
std::vector<int64_t> CudaDevice::workspacesFor(const Plan &plan) const {
  std::vector<int64_t> workspaces(plan.streams.size(), 0);
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Matmul)
      workspaces[command.stream] =
          std::max(workspaces[command.stream],
                   aligned(gemms_->workspaceBytes(plan.matmuls[command.matmul])));
  return workspaces;
}

/// A GEMM that was measured since may need more. Graphs that are recorded keep the memory that they
/// have.
Status CudaDevice::growWorkspaces(Timetable &timetable) {
  const std::vector<int64_t> needed = workspacesFor(*timetable.plan);
  ForGraphs &mine = timetable.ofGraphs;
  for (size_t stream = 0; stream < needed.size(); ++stream) {
    const auto bytes = static_cast<size_t>(needed[stream]);
    if (bytes <= mine.workspaces[stream].bytes)
      continue;
    mine.larger.push_back(BRAID_TRY(memory_.allocate(ArenaKind::Private, needed[stream])));
    mine.workspaces[stream] = {mine.larger.back(), bytes};
  }
  return Status::ok();
}

/// All that graphs with this Plan's runs have to themselves: the counts of the guard, those of
/// kernels that copy and signal, and the workspaces of GEMMs, for each stream.
Status CudaDevice::allocateForGraphs(Timetable &timetable) {
  const Plan &plan = *timetable.plan;
  constexpr int64_t kCounterBytes = cuda::CopyAndSignal::kCounters * sizeof(uint32_t);
  ForGraphs &mine = timetable.ofGraphs;
  const int64_t counters = aligned(kCounterBytes * static_cast<int64_t>(plan.streams.size()));
  int64_t bytes = kAlignment + counters;
  for (int64_t each : workspacesFor(plan)) {
    mine.workspaces.push_back({nullptr, static_cast<size_t>(each)});
    bytes += each;
  }
  auto *base = static_cast<char *>(BRAID_TRY(memory_.allocate(ArenaKind::Private, bytes)));
  mine.memory = base;
  mine.guard.counts = reinterpret_cast<uint32_t *>(base);
  mine.counters = reinterpret_cast<uint32_t *>(base + kAlignment);
  base += kAlignment + counters;
  for (Workspace &workspace : mine.workspaces) {
    workspace.data = base;
    base += workspace.bytes;
  }
  static_assert(sizeof(cuda::RunReport) <= sizeof(StepWord));
  const auto reports = static_cast<int64_t>((1 + plan.streams.size()) * sizeof(StepWord));
  void *report = BRAID_TRY(memory_.allocateReports(reports));
  mine.guard.report = static_cast<cuda::RunReport *>(report);
  timetable.steps.words = static_cast<StepWord *>(report) + 1;
  return Status::ok();
}

void CudaDevice::releaseForGraphs(Timetable &timetable) {
  memory_.release(timetable.ofGraphs.memory);
  for (void *larger : timetable.ofGraphs.larger)
    memory_.release(larger);
  memory_.release(timetable.ofGraphs.guard.report);
}

/// A run of a graph of the caller's, or one beside such graphs.
bool CudaDevice::isRunning(const Timetable &timetable) {
  cuda::RunReport &report = *timetable.ofGraphs.guard.report;
  return look(report.begun) != look(report.ended);
}

uint32_t CudaDevice::endedRuns(const Timetable &timetable) {
  return look(timetable.ofGraphs.guard.report->ended);
}

Status CudaDevice::checkOverlaps() const {
  for (const std::unique_ptr<Timetable> &each : timetables_)
    if (look(each->ofGraphs.guard.report->overlapped) != 0)
      return badInput("rank {}: two runs of @{} overlapped, at least one of them in a graph of the "
                      "caller's: expected the caller to order the launches of its graphs",
                      options_.rank, each->plan->program);
  return Status::ok();
}

// -- Graphs of our own. --

Status CudaDevice::beginCapture() {
  BRAID_TRY(group_.failure());
  enter();
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

Result<uint32_t> CudaDevice::endCapture() {
  enter();
  leaveCapture();
  isRecording_ = false;
  cudaGraph_t graph = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamEndCapture(recordingStream_, &graph));
  destroyReleasedGraphs();
  cudaGraphExec_t executable = nullptr;
  cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (code != cudaSuccess)
    return cudaFailure(code, "cudaGraphInstantiate");
  if (Status status = uploadGraph(executable, recordingStream_); !status.isOk()) {
    cudaGraphExecDestroy(executable);
    return status;
  }
  if (freeGraphs_.empty()) {
    freeGraphs_.push_back(static_cast<uint32_t>(graphs_.size()));
    graphs_.push_back(nullptr);
  }
  const uint32_t number = freeGraphs_.back();
  freeGraphs_.pop_back();
  graphs_[number] = executable;
  return number;
}

uint64_t CudaDevice::allocationOf(const void *address) {
  unsigned long long number = 0;
  const CUresult code = driver_->pointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                                     reinterpret_cast<CUdeviceptr>(address));
  return code == CUDA_SUCCESS ? number : 0;
}

void CudaDevice::launch(uint32_t graph, Tag tag) {
  if (group_.isAborted())
    return;
  enter();
  if (!wasReplay_)
    putReplayBehindRuns();
  wasReplay_ = true;
  isDirty_[0] = true;
  Timetable *timetable = note(tag);
  const bool tellsItself = timetable && !isReportedBehind(*timetable);
  if (timetable)
    timetable->steps.run.store(tag.run, std::memory_order_relaxed);
  if (tellsItself)
    timetable->isLaunched.store(true, std::memory_order_relaxed);
  check(cudaGraphLaunch(graphs_[graph], streams_[0]), "cudaGraphLaunch");
  if (timetable && !tellsItself)
    reportReplay(*timetable, tag.run);
}

} // namespace braid
