//===- tests/gpu/gpu_session_test.cpp - sessions on a caller's CUDA streams -------------------===//
//
//   [BRAID_TEST_BACKEND=nccl] gpu_session_test [--ranks N] [--runs R]
//
// Four sessions alternate on ten streams of the caller: eagerly, replayed, and in the caller's
// graphs, between kernels of the test that fill and read the tensors. There are R runs in total
// (default 1,000), and every element is compared. The ranks choose the last session's schedule by
// measuring. Further cases: rejected calls do not affect later calls; overlapping launches end the
// job; replays and pauses of any length do not; ended sessions leak no memory; two jobs run
// concurrently; calls after a failure return its cause.
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"
#include "backends/cuda/kernels.h"
#include "ir/failure.h"
#include "runtime/execute/device.h"
#include "tests/gpu/gpu_job.h"

#include <cuda_runtime.h>

#include <array>
#include <filesystem>
#include <thread>

namespace braid::test {
namespace {

constexpr int64_t kRows = 96, kDepth = 64, kColumns = 40; // kRows: per rank
constexpr size_t kStreams = 10, kSessions = 4;
constexpr int kTimeoutMs = 5000, kShortTimeoutMs = 1500;

std::string backendName() {
  const char *name = std::getenv("BRAID_TEST_BACKEND");
  return name ? name : "cuda";
}

/// The last schedule is chosen by measuring. BRAID_TEST_BACKEND=mixed adds collectives to copies.
std::array<std::string, kSessions> schedules() {
  if (backendName() == "nccl") // has no protocols and needs a named schedule
    return {"pairwise", "bulk", "pairwise;placement=shared", "sequential"};
  if (backendName() == "mixed")
    return {"pairwise", "collective;transport=messages", "pairwise;placement=shared", ""};
  return {"pairwise", "bulk;protocol=put;copies=kernel", "pairwise;placement=shared", ""};
}

std::string fusion(int64_t ranks, int64_t rows = kRows, int64_t depth = kDepth,
                   int64_t columns = kColumns) {
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", ranks);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(rows), plain(depth)});
  f.input("B", DType::F32, {plain(depth), plain(columns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(rows), plain(columns)});
  f.output({"C"});
  return f.str();
}

enum class How { Eager, Replayed, InCallersGraph };

/// A stream of the caller, and tensors on the host and on the GPU.
struct Lane {
  How how = How::Eager;
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
  float *hostA = nullptr, *hostC = nullptr; ///< pinned memory
  void *raw = nullptr, *a = nullptr, *ones = nullptr, *b = nullptr, *c = nullptr;
  Tensor inputs[2], output;
};

Status cudaStatus(cudaError_t code, const char *call) {
  return code == cudaSuccess
             ? Status::ok()
             : Status(StatusCode::Internal, std::string(call) + ": " + cudaGetErrorString(code));
}

class Caller {
public:
  Caller(Job &job, const CompiledProgram &program) : job_(job) {
    const std::vector<float> ones(static_cast<size_t>(kRows * kDepth), 1);
    for (size_t i = 0; i < kStreams; ++i) {
      Lane &lane = lanes_[i];
      lane.how = i + 1 == kStreams ? How::Replayed : i % 3 == 1 ? How::InCallersGraph : How::Eager;
      cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking);
      cudaMallocHost(reinterpret_cast<void **>(&lane.hostA), aBytes());
      cudaMallocHost(reinterpret_cast<void **>(&lane.hostC), cBytes());
      cudaMalloc(&lane.raw, aBytes());
      cudaMalloc(&lane.a, aBytes());
      cudaMalloc(&lane.ones, aBytes());
      cudaMalloc(&lane.b, bBytes());
      cudaMalloc(&lane.c, cBytes());
      cudaMemcpy(lane.ones, ones.data(), aBytes(), cudaMemcpyDefault);
      cudaMemcpy(lane.b, ones.data(), bBytes(), cudaMemcpyDefault);
      lane.inputs[0] = Tensor(lane.a, program.inputs()[0]);
      lane.inputs[1] = Tensor(lane.b, program.inputs()[1]);
      lane.output = Tensor(lane.c, program.outputs()[0]);
    }
    cudaEventCreateWithFlags(&order_, cudaEventDisableTiming);
    cudaDeviceSynchronize();
  }

  /// Returns a graph that contains one run, after launching the graph once.
  Result<cudaGraphExec_t> recordOne(Session &session) {
    Lane &lane = lanes_[0];
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeRelaxed);
    const Status status = session.run(lane.inputs, {&lane.output, 1}, lane.stream);
    cudaStreamEndCapture(lane.stream, &graph);
    if (!status.isOk())
      return status;
    const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    if (code != cudaSuccess)
      return cudaStatus(code, "cudaGraphInstantiate");
    cudaGraphLaunch(executable, lane.stream);
    cudaStreamSynchronize(lane.stream);
    return executable;
  }

  Status expectRefusals(Session &session) {
    Lane &lane = lanes_[0];
    Tensor onHost[] = {lane.inputs[0], lane.inputs[1]};
    onHost[0].data = lane.hostC;
    Status refused = session.run(onHost, {&lane.output, 1}, lane.stream);
    if (refused.code() != StatusCode::BadInput)
      return {StatusCode::Internal, "memory of the host was taken: " + refused.message()};
    cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeGlobal);
    refused = session.replay(lane.stream);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(lane.stream, &graph);
    cudaGraphDestroy(graph);
    return refused.code() == StatusCode::Unsupported
               ? Status::ok()
               : Status(StatusCode::Internal, "a captured stream was taken: " + refused.message());
  }

  /// Uses more sets of addresses than the session caches, each twice in a row, all in flight at
  /// once. A recording is evicted while it may still be running, and its memory must be freed.
  Status useManyAddresses(Session &session) {
    constexpr size_t kSets = 320, kSlack = size_t(64) << 20; // other ranks may use the same GPU
    constexpr int kRounds = 8;
    Lane &lane = lanes_[0];
    char *outputs = nullptr;
    cudaMalloc(reinterpret_cast<void **>(&outputs), kSets * cBytes());
    size_t before = 0, after = 0, total = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::fill_n(lane.hostA, kRows * kDepth, valueOf(job_.firstRank(), round));
      cudaMemcpyAsync(lane.a, lane.hostA, aBytes(), cudaMemcpyDefault, lane.stream);
      cudaMemsetAsync(outputs, -1, kSets * cBytes(), lane.stream);
      for (size_t run = 0; run < 2 * kSets; ++run) {
        void *const addresses[] = {lane.a, lane.b, outputs + run / 2 * cBytes()};
        BRAID_TRY(session.runAt(addresses, lane.stream));
      }
      for (size_t set = 0; set < kSets; ++set) {
        cudaMemcpyAsync(lane.hostC, outputs + set * cBytes(), cBytes(), cudaMemcpyDefault,
                        lane.stream);
        BRAID_TRY(cudaStatus(cudaStreamSynchronize(lane.stream), "a set"));
        BRAID_TRY(check(lane, round));
      }
      cudaMemGetInfo(round == 0 ? &before : &after, &total);
    }
    cudaFree(outputs);
    return after + kSlack < before ? Status(StatusCode::Internal, "recordings left memory")
                                   : job_.commit();
  }

  /// Records the graphs of the lanes. One is recorded while another capture is open and a third
  /// lane runs eagerly; another contains runs of two sessions that write the same result.
  Status record(llvm::ArrayRef<std::unique_ptr<Session>> sessions) {
    for (size_t i = 0; i < kStreams; ++i) {
      Session &session = *sessions[i % kSessions];
      Lane &lane = lanes_[i];
      Status status;
      if (lane.how == How::Replayed)
        status = session.capture(lane.inputs, {&lane.output, 1});
      else if (lane.how == How::InCallersGraph)
        status = recordGraph(session, lane, i == 1 ? sessions[0].get() : nullptr,
                             i == 4 ? sessions[1].get() : nullptr);
      if (!status.isOk())
        return status;
    }
    return Status::ok();
  }

  Status recordGraph(Session &session, Lane &lane, Session *beside = nullptr,
                     Session *before = nullptr) {
    cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeRelaxed);
    Status status = before ? issueWork(*before, lane) : Status::ok();
    if (status.isOk())
      status = issueWork(session, lane);
    if (status.isOk() && beside) { // other captures and eager work must not enter this graph
      Lane &other = lanes_[3];
      cudaStreamBeginCapture(other.stream, cudaStreamCaptureModeRelaxed);
      status = issueWork(*beside, other);
      cudaGraph_t unused = nullptr;
      if (status.isOk())
        status = cudaStatus(cudaStreamEndCapture(other.stream, &unused), "a second capture");
      cudaGraphDestroy(unused);
      if (status.isOk())
        status = issueWork(*beside, lanes_[0]);
    }
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(lane.stream, &graph);
    if (!status.isOk() || code != cudaSuccess)
      return status.isOk() ? cudaStatus(code, "cudaStreamEndCapture") : status;
    const cudaError_t made = cudaGraphInstantiate(&lane.graph, graph, 0);
    cudaGraphDestroy(graph);
    return cudaStatus(made, "cudaGraphInstantiate");
  }

  /// Launches a run on each lane, with the lane's session, and checks all results.
  Status runAll(llvm::ArrayRef<std::unique_ptr<Session>> sessions, int first) {
    for (size_t i = 0; i < kStreams; ++i)
      BRAID_TRY(launch(*sessions[i % kSessions], lanes_[i], first + static_cast<int>(i)));
    for (size_t i = 0; i < kStreams; ++i)
      BRAID_TRY(cudaStatus(cudaStreamSynchronize(lanes_[i].stream), "a lane"));
    BRAID_TRY(job_.synchronize());
    for (size_t i = 0; i < kStreams; ++i)
      BRAID_TRY(check(lanes_[i], first + static_cast<int>(i)));
    return Status::ok();
  }

  /// Launches two graphs with runs of one session on two streams.
  Status overlap(Session &session) {
    for (size_t i : {0u, 1u})
      BRAID_TRY(recordGraph(session, lanes_[i]));
    for (int round = 0; round < 100; ++round) {
      for (size_t i : {0u, 1u})
        cudaGraphLaunch(lanes_[i].graph, lanes_[i].stream);
      for (size_t i : {0u, 1u})
        cudaStreamSynchronize(lanes_[i].stream);
      BRAID_TRY(job_.synchronize());
    }
    return Status::ok();
  }

  /// Rank 0 launches a run that the other ranks never launch, and waits for it with CUDA calls.
  Status launchAlone(Session &session) {
    Lane &lane = lanes_[1];
    BRAID_TRY(recordGraph(session, lane));
    if (job_.firstRank() == 0)
      cudaGraphLaunch(lane.graph, lane.stream);
    BRAID_TRY(cudaStatus(cudaStreamSynchronize(lane.stream), "a lane"));
    return job_.commit();
  }

  /// Replays one session and launches graphs with runs of another, each for longer than the
  /// timeout; then issues single eager and recorded runs. After each phase, pauses for longer than
  /// the timeout and waits only with CUDA calls. None of this may count as a stall.
  Status goOnAndPause(Session &session, Session &other) {
    const int many = sharesGpus() ? 1000 : 20000;
    Lane &replayed = lanes_[kStreams - 1], &inGraph = lanes_[1], &eager = lanes_[0];
    BRAID_TRY(session.capture(replayed.inputs, {&replayed.output, 1}));
    BRAID_TRY(recordGraph(other, inGraph));
    const std::pair<Lane *, int> phases[] = {
        {&replayed, many}, {&inGraph, many}, {&eager, 1}, {&inGraph, 1}, {&replayed, 1}};
    int run = 0;
    for (const auto &[lane, launches] : phases) {
      for (int i = 0; i < launches; ++i)
        BRAID_TRY(launchAndCheck(session, *lane, run++));
      std::this_thread::sleep_for(std::chrono::milliseconds(2) * kShortTimeoutMs);
    }
    return job_.commit();
  }

  /// All ranks replay two sessions. Then only rank 0 replays and waits with CUDA calls; the other
  /// ranks follow after the stall has been detected. The second session starts with a signal, which
  /// must not hide that the first session is waiting.
  Status replayTwoAlone(Session &session, Session &behind) {
    Lane &lane = lanes_[kStreams - 1];
    for (Session *each : {&session, &behind}) {
      BRAID_TRY(each->capture(lane.inputs, {&lane.output, 1}));
      BRAID_TRY(launchAndCheck(*each, lane, 0));
    }
    if (job_.firstRank() != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(4) * kShortTimeoutMs);
    for (Session *each : {&session, &behind})
      BRAID_TRY(launch(*each, lane, 1));
    BRAID_TRY(cudaStatus(cudaStreamSynchronize(lane.stream), "a lane"));
    return job_.commit();
  }

  /// Rank 0 replays runs that the others launch in graphs. A pause that is longer than the timeout
  /// is not a stall.
  Status launchDifferently(Session &session) {
    Lane &replayed = lanes_[kStreams - 1], &inGraph = lanes_[1];
    BRAID_TRY(session.capture(replayed.inputs, {&replayed.output, 1}));
    BRAID_TRY(recordGraph(session, inGraph));
    BRAID_TRY(launchAndCheck(session, replayed, 0));
    for (int run = 1; run < 10; ++run)
      BRAID_TRY(launchAndCheck(session, job_.firstRank() == 0 ? replayed : inGraph, run));
    std::this_thread::sleep_for(std::chrono::milliseconds(2) * kShortTimeoutMs);
    return job_.commit();
  }

  /// One rank aborts the job. From then on, every call returns the cause, even during a capture by
  /// the caller, and the capture can still be ended.
  Status issueAfterFailure(Session &session) {
    Lane &lane = lanes_[0], &replayed = lanes_[kStreams - 1];
    BRAID_TRY(session.capture(replayed.inputs, {&replayed.output, 1}));
    void *const addresses[] = {lane.a, lane.b, lane.c};
    for (int run = 0; run < 3; ++run) // the second run is recorded
      BRAID_TRY(session.runAt(addresses, lane.stream));
    BRAID_TRY(job_.synchronize());
    if (job_.firstRank() == 0)
      job_.abort({StatusCode::PeerFailed, "this is enough"});
    while (job_.synchronize().isOk())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto run = [&] { return session.run(lane.inputs, {&lane.output, 1}, lane.stream); };
    expectFailure("run", run());
    expectFailure("runAt", session.runAt(addresses, lane.stream));
    expectFailure("replay", session.replay(replayed.stream));
    expectFailure("capture", session.capture(replayed.inputs, {&replayed.output, 1}));
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal);
    expectFailure("run in a capture", run());
    expectFailure("runAt in a capture", session.runAt(addresses, lane.stream));
    expectFailure("replay in a capture", session.replay(lane.stream));
    if (cudaStreamEndCapture(lane.stream, &graph) != cudaSuccess || !graph)
      endOtherwise("the capture is spoilt");
    cudaGraphDestroy(graph);
    return job_.commit();
  }

private:
  /// The job has already failed, so a further failure can be reported only by exiting.
  [[noreturn]] static void endOtherwise(const std::string &what) {
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    std::_Exit(1);
  }
  static void expectFailure(const char *call, const Status &status) {
    if (status.code() != StatusCode::PeerFailed || status.message() != "this is enough")
      endOtherwise(std::string(call) + ": expected the cause, got '" + status.message() + "'");
  }

  size_t aBytes() const { return static_cast<size_t>(kRows * kDepth) * sizeof(float); }
  size_t bBytes() const { return static_cast<size_t>(kDepth * kColumns) * sizeof(float); }
  size_t cElements() const { return static_cast<size_t>(job_.ranks() * kRows * kColumns); }
  size_t cBytes() const { return cElements() * sizeof(float); }

  /// Issues a run between the caller's kernels that must run before and after it.
  Status issueWork(Session &session, Lane &lane) {
    cudaMemcpyAsync(lane.raw, lane.hostA, aBytes(), cudaMemcpyDefault, lane.stream);
    cuda::Pointwise sum{
        cuda::Element::F32, kRows * kDepth, {false, lane.a}, {false, lane.raw}, 1, {}};
    sum.steps[0] = {PointwiseFunction::Add, {false, lane.ones}};
    cuda::launchPointwise(lane.stream, sum);
    cudaMemsetAsync(lane.c, 0xff, cBytes(), lane.stream);
    const Status status = lane.how == How::Replayed
                              ? session.replay(lane.stream)
                              : session.run(lane.inputs, {&lane.output, 1}, lane.stream);
    cudaMemcpyAsync(lane.hostC, lane.c, cBytes(), cudaMemcpyDefault, lane.stream);
    return status;
  }

  /// Returns the value that the kernel writes to a rank's A for the given run.
  static float valueOf(int64_t rank, int run) {
    return static_cast<float>((rank * 3 + run) % 97 + 1);
  }

  /// Launches a run. The caller's event orders the run relative to the other lanes.
  Status launch(Session &session, Lane &lane, int run) {
    std::fill_n(lane.hostA, kRows * kDepth, valueOf(job_.firstRank(), run) - 1);
    cudaStreamWaitEvent(lane.stream, order_, 0);
    const Status status = lane.graph
                              ? cudaStatus(cudaGraphLaunch(lane.graph, lane.stream), "a graph")
                              : issueWork(session, lane);
    cudaEventRecord(order_, lane.stream);
    return status;
  }

  Status launchAndCheck(Session &session, Lane &lane, int run) {
    BRAID_TRY(launch(session, lane, run));
    BRAID_TRY(cudaStatus(cudaStreamSynchronize(lane.stream), "a lane"));
    return check(lane, run);
  }

  Status check(const Lane &lane, int run) const {
    for (size_t i = 0; i < cElements(); ++i) {
      const int64_t owner = static_cast<int64_t>(i) / (kRows * kColumns);
      const float wanted = static_cast<float>(kDepth) * valueOf(owner, run);
      if (lane.hostC[i] != wanted)
        return {StatusCode::WrongResult, "run " + std::to_string(run) + ", element " +
                                             std::to_string(i) + ": " +
                                             std::to_string(lane.hostC[i])};
    }
    return Status::ok();
  }

  Job &job_;
  std::array<Lane, kStreams> lanes_;
  cudaEvent_t order_ = nullptr;
};

Result<CompiledProgram> compiled(Job &job, const std::string &schedule) {
  return job.compileText("gpu_session_test", fusion(job.ranks()), {.schedule = schedule});
}

Status takeTurns(const std::shared_ptr<Job> &job, int runs) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (const std::string &schedule : schedules()) {
    CompiledProgram program = BRAID_TRY(compiled(*job, schedule));
    if (program.choice().empty() != !schedule.empty())
      return {StatusCode::Internal, "expected a choice where no schedule is named"};
    sessions.push_back(BRAID_TRY(Session::prepare(job, program)));
  }
  Caller caller(*job, sessions[0]->program());
  BRAID_TRY(caller.record(sessions));
  BRAID_TRY(caller.expectRefusals(*sessions[(kStreams - 1) % kSessions]));
  for (int run = 0; run < runs; run += static_cast<int>(kStreams))
    BRAID_TRY(caller.runAll(sessions, run));
  return job->commit();
}

/// Prepares schedule 2, in which one stream starts with a wait.
Result<std::unique_ptr<Session>> onlySession(const std::shared_ptr<Job> &job) {
  Result<CompiledProgram> program = compiled(*job, schedules()[2]);
  return program ? Session::prepare(job, *program) : program.status();
}

/// Calls `kAct` with one session.
template <Status (Caller::*kAct)(Session &)> Status actWith(const std::shared_ptr<Job> &job, int) {
  std::unique_ptr<Session> session = BRAID_TRY(onlySession(job));
  Caller caller(*job, session->program());
  return (caller.*kAct)(*session);
}

/// Calls `kAct` with two sessions. The second session starts with a signal on every stream.
template <Status (Caller::*kAct)(Session &, Session &)>
Status actWithTwo(const std::shared_ptr<Job> &job, int) {
  std::unique_ptr<Session> session = BRAID_TRY(onlySession(job));
  CompiledProgram program = BRAID_TRY(compiled(*job, schedules()[0]));
  std::unique_ptr<Session> other = BRAID_TRY(Session::prepare(job, program));
  Caller caller(*job, session->program());
  return (caller.*kAct)(*session, *other);
}

Status expect(bool isTrue, const std::string &what) {
  return isTrue ? Status::ok() : Status(StatusCode::Internal, "expected " + what);
}

/// Calls `kAct` with one session and a caller's graph that contains a run of this session.
template <Status (*kAct)(const std::shared_ptr<Job> &, std::unique_ptr<Session>, cudaGraphExec_t)>
Status actWithGraph(const std::shared_ptr<Job> &job, int) {
  std::unique_ptr<Session> session = BRAID_TRY(onlySession(job));
  Caller caller(*job, session->program());
  const cudaGraphExec_t graph = BRAID_TRY(caller.recordOne(*session));
  return kAct(job, std::move(session), graph);
}

/// A graph that contains a run keeps the job open. After the graph is destroyed, the job can close.
Status closeBesideGraph(const std::shared_ptr<Job> &job, std::unique_ptr<Session> session,
                        cudaGraphExec_t graph) {
  session.reset();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    const Status refused = job->close();
    const auto took = std::chrono::steady_clock::now() - start;
    BRAID_TRY(expect(refused.code() == StatusCode::BadInput &&
                         refused.message().find("1 graph") != std::string::npos,
                     "a graph to be named, got " + refused.message()));
    BRAID_TRY(expect(took < std::chrono::milliseconds(100), "it within 0.1 s"));
  }
  cudaGraphExecDestroy(graph);
  const Status closed = job->close();
  return closed.isOk() ? expect(!job->synchronize().isOk(), "a closed job to be closed") : closed;
}

/// As long as any rank keeps a graph with a run of a session, all ranks must report that the
/// session is in a graph.
Status knowGraphs(const std::shared_ptr<Job> &job, std::unique_ptr<Session> session,
                  cudaGraphExec_t graph) {
  const bool keepsIt = job->firstRank() == 0;
  BRAID_TRY(expect(job->mark() == 0, "no mark where a run was captured"));
  for (const bool isKept : {true, false}) {
    if (keepsIt != isKept)
      cudaGraphExecDestroy(graph);
    // CUDA reports the destruction asynchronously.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::unique_ptr<Session> other = BRAID_TRY(onlySession(job));
    if (session->usage().isInGraph != isKept || other->usage().isInGraph)
      return {StatusCode::Internal, isKept ? "a graph to be known" : "no graph to be left"};
  }
  return job->commit();
}

/// Returns the free memory of the GPU and the number of open descriptors of this process.
std::pair<size_t, int64_t> freeThings() {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return {free, std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})};
}

/// Ended sessions with several schedules must leak neither memory nor descriptors.
Status comeAndGo(const std::shared_ptr<Job> &job, int runs) {
  std::vector<CompiledProgram> programs;
  for (size_t i = 0; i + 1 < kSessions; ++i)
    programs.push_back(BRAID_TRY(compiled(*job, schedules()[i])));
  std::pair<size_t, int64_t> before;
  constexpr int kMost = 1000; // a session takes several milliseconds
  for (int i = 0; i < std::min(runs, kMost); ++i) {
    const auto session =
        BRAID_TRY(Session::prepare(job, programs[static_cast<size_t>(i) % programs.size()]));
    if (i == 20)
      before = freeThings();
    constexpr size_t kSlack = size_t(64) << 20; // other ranks may use the same GPU
    const auto [free, files] = freeThings();
    if (i > 20 && (free + kSlack < before.first || files != before.second))
      return {StatusCode::Internal, "session " + std::to_string(i) + " left memory or descriptors"};
  }
  return job->commit();
}

/// One of two jobs in a process. The waiting kernels of its program would occupy half of the GPU.
class BesideAnother {
public:
  explicit BesideAnother(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  ~BesideAnother() {
    for (void *tensor : {a_, b_, c_})
      cudaFree(tensor);
    cudaStreamDestroy(stream_);
  }

  Status prepare() {
    const CompiledProgram program = BRAID_TRY(
        job_->compileText("gpu_session_test", fusion(job_->ranks(), kBlock, kInner, kOuter),
                          {.schedule = "pairwise;protocol=put;copies=kernel;chunks=4;streams=1"}));
    session_ = BRAID_TRY(Session::prepare(job_, program));
    const std::vector<float> a(kBlock * kInner, static_cast<float>(1 + job_->firstRank()));
    const std::vector<float> b(kInner * kOuter, 1);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaMalloc(&a_, a.size() * sizeof(float));
    cudaMalloc(&b_, b.size() * sizeof(float));
    cudaMalloc(&c_, results() * sizeof(float));
    cudaMemcpy(a_, a.data(), a.size() * sizeof(float), cudaMemcpyDefault);
    cudaMemcpy(b_, b.data(), b.size() * sizeof(float), cudaMemcpyDefault);
    return cudaStatus(cudaDeviceSynchronize(), "tensors");
  }
  Status issue() {
    const Tensor inputs[] = {Tensor(a_, session_->program().inputs()[0]),
                             Tensor(b_, session_->program().inputs()[1])};
    const Tensor output(c_, session_->program().outputs()[0]);
    return session_->run(inputs, {&output, 1}, stream_);
  }
  Status finish() {
    BRAID_TRY(job_->synchronize());
    std::vector<float> c(results());
    cudaMemcpy(c.data(), c_, c.size() * sizeof(float), cudaMemcpyDefault);
    for (size_t i = 0; i < c.size(); ++i)
      if (c[i] != static_cast<float>(kInner * (1 + i / (kBlock * kOuter))))
        return {StatusCode::WrongResult, "element " + std::to_string(i)};
    return Status::ok();
  }

private:
  static constexpr size_t kBlock = 1024, kInner = 2048, kOuter = 512;
  size_t results() const { return static_cast<size_t>(job_->ranks()) * kBlock * kOuter; }

  const std::shared_ptr<Job> job_;
  std::unique_ptr<Session> session_;
  cudaStream_t stream_ = nullptr;
  void *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
};

/// The runs of the two jobs are unordered, and different ranks issue them in opposite orders.
Status runBesideEachOther(const std::shared_ptr<Job> &job, const std::shared_ptr<Job> &other,
                          int runs) {
  BesideAnother both[] = {BesideAnother(job), BesideAnother(other)};
  for (BesideAnother &each : both)
    BRAID_TRY(each.prepare());
  for (int run = 0; run < std::min(runs, 50); ++run) {
    for (int64_t i = 0; i < 2 * kRunsAhead; ++i)
      BRAID_TRY(both[(i + job->firstRank()) % 2].issue());
    for (BesideAnother &each : both)
      BRAID_TRY(each.finish());
  }
  BRAID_TRY(other->commit());
  return job->commit();
}

/// Selects the rank's GPU, where the test allocates its tensors.
void chooseGpu(const Place &place) {
  cudaSetDevice(static_cast<int>(place.localRank) % std::max(countGpus(), 1));
}

/// The name of the second job is the name of the launched job plus a suffix.
int twoJobs(const Place &place, int runs) {
  chooseGpu(place);
  constexpr std::chrono::milliseconds kLimit(kTimeoutMs);
  Result<std::shared_ptr<Job>> job = Job::join({.backend = "cuda", .timeout = kLimit});
  if (!job)
    return static_cast<int>(job.status().code());
  Result<std::shared_ptr<Job>> other =
      Job::join({.backend = "cuda",
                 .timeout = kLimit,
                 .place = JobPlace{place.rank, place.ranks, place.job + " beside"}});
  return endOfRank(**job, other ? runBesideEachOther(*job, *other, runs) : other.status());
}

template <Status (*kBody)(const std::shared_ptr<Job> &, int), int kMs = kTimeoutMs>
int rankMain(const Place &place, int runs) {
  chooseGpu(place);
  Result<std::shared_ptr<Job>> job =
      Job::join({.backend = backendName() == "nccl" ? "nccl" : "cuda",
                 .timeout = std::chrono::milliseconds(kMs)});
  return job ? endOfRank(**job, kBody(*job, runs)) : static_cast<int>(job.status().code());
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid::test;
  return gpuJobMain(
      argc, argv,
      {{"sessions", rankMain<takeTurns>},
       {"whatever is issued after a failure", rankMain<actWith<&Caller::issueAfterFailure>>,
        "this is enough", true},
       {"overlapping launches", rankMain<actWith<&Caller::overlap>>, "overlapped"},
       {"a launch that other ranks leave out", rankMain<actWith<&Caller::launchAlone>>,
        "no progress for 5000 ms"},
       {"replays and pauses that are longer than the timeout",
        rankMain<actWithTwo<&Caller::goOnAndPause>, kShortTimeoutMs>},
       {"replays beside graphs of the caller's",
        rankMain<actWith<&Caller::launchDifferently>, kShortTimeoutMs>},
       {"replays of two sessions that other ranks leave out",
        rankMain<actWithTwo<&Caller::replayTwoAlone>, kShortTimeoutMs>, "no progress for 1500 ms"},
       {"two jobs at once", twoJobs},
       {"addresses that come back", rankMain<actWith<&Caller::useManyAddresses>>},
       {"sessions that end", rankMain<comeAndGo>},
       {"a close beside a graph", rankMain<actWithGraph<closeBesideGraph>>},
       {"graphs that are known", rankMain<actWithGraph<knowGraphs>>}});
}
