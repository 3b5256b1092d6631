//===- tests/gpu/gpu_session_test.cpp - sessions on a caller's streams of a GPU ---------------===//
//
//   gpu_session_test [--ranks N] [--runs R]
//
// Three sessions take turns on ten streams of the caller's, eager and replayed, with tensors that
// the caller fills and reads on those streams; R runs in all (1,000). Every element of every run is
// compared. What a session refuses harms nobody.
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"
#include "tests/gpu/gpu_job.h"

#include <cuda_runtime.h>

#include <array>

namespace braid::test {
namespace {

constexpr int64_t kRows = 96, kDepth = 64, kColumns = 40; // rows of one rank
constexpr size_t kStreams = 10, kSessions = 3;
const char *const kSchedules[kSessions] = {"pairwise", "bulk;protocol=put;copies=kernel",
                                           "pairwise;placement=shared"};

std::string fusion(int64_t ranks) {
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", ranks);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(kRows), plain(kDepth)});
  f.input("B", DType::F32, {plain(kDepth), plain(kColumns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(kRows), plain(kColumns)});
  f.output({"C"});
  return f.str();
}

/// One stream of the caller's, with tensors on both sides.
struct Lane {
  cudaStream_t stream = nullptr;
  float *hostA = nullptr, *hostC = nullptr; ///< pinned
  void *a = nullptr, *b = nullptr, *c = nullptr;
  Tensor inputs[2], output;
};

class Caller {
public:
  Caller(Job &job, const CompiledProgram &program) : job_(job), program_(program) {
    const std::vector<float> ones(static_cast<size_t>(kDepth * kColumns), 1);
    for (Lane &lane : lanes_) {
      cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking);
      cudaMallocHost(reinterpret_cast<void **>(&lane.hostA), aBytes());
      cudaMallocHost(reinterpret_cast<void **>(&lane.hostC), cBytes());
      cudaMalloc(&lane.a, aBytes());
      cudaMalloc(&lane.b, ones.size() * sizeof(float));
      cudaMalloc(&lane.c, cBytes());
      cudaMemcpy(lane.b, ones.data(), ones.size() * sizeof(float), cudaMemcpyDefault);
      lane.inputs[0] = Tensor(lane.a, program.inputs()[0]);
      lane.inputs[1] = Tensor(lane.b, program.inputs()[1]);
      lane.output = Tensor(lane.c, program.outputs()[0]);
    }
    cudaDeviceSynchronize();
  }

  Status expectRefusals(Session &session) {
    Lane &lane = lanes_[0];
    Tensor onHost[] = {lane.inputs[0], lane.inputs[1]};
    onHost[0].data = lane.hostC;
    Status refused = session.run(onHost, {&lane.output, 1}, lane.stream);
    if (refused.code() != StatusCode::BadInput)
      return {StatusCode::Internal, "memory of the host was taken: " + refused.message()};
    cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal);
    refused = session.run(lane.inputs, {&lane.output, 1}, lane.stream);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(lane.stream, &graph);
    cudaGraphDestroy(graph);
    return refused.code() == StatusCode::Unsupported
               ? Status::ok()
               : Status(StatusCode::Internal, "a captured stream was taken: " + refused.message());
  }

  /// All lanes once, each with the session whose turn it is; the last lane is replayed.
  Status runAll(llvm::ArrayRef<std::unique_ptr<Session>> sessions, int first) {
    for (size_t i = 0; i < kStreams; ++i)
      if (Status status = issue(*sessions[i % kSessions], lanes_[i], first + static_cast<int>(i),
                                i + 1 == kStreams);
          !status.isOk())
        return status;
    if (Status status = job_.synchronize(); !status.isOk())
      return status;
    for (size_t i = 0; i < kStreams; ++i) {
      cudaStreamSynchronize(lanes_[i].stream);
      if (Status status = check(lanes_[i], first + static_cast<int>(i)); !status.isOk())
        return status;
    }
    return Status::ok();
  }

  Status capture(Session &session) {
    Lane &lane = lanes_.back();
    return session.capture(lane.inputs, {&lane.output, 1});
  }

private:
  size_t aBytes() const { return static_cast<size_t>(kRows * kDepth) * sizeof(float); }
  size_t cElements() const { return static_cast<size_t>(job_.ranks() * kRows * kColumns); }
  size_t cBytes() const { return cElements() * sizeof(float); }

  Status issue(Session &session, Lane &lane, int run, bool isReplay) {
    std::fill_n(lane.hostA, kRows * kDepth, static_cast<float>((job_.firstRank() * 3 + run) % 97));
    cudaMemcpyAsync(lane.a, lane.hostA, aBytes(), cudaMemcpyDefault, lane.stream);
    cudaMemsetAsync(lane.c, 0xff, cBytes(), lane.stream);
    const Status status = isReplay ? session.replay(lane.stream)
                                   : session.run(lane.inputs, {&lane.output, 1}, lane.stream);
    cudaMemcpyAsync(lane.hostC, lane.c, cBytes(), cudaMemcpyDefault, lane.stream);
    return status;
  }

  Status check(const Lane &lane, int run) const {
    for (size_t i = 0; i < cElements(); ++i) {
      const int64_t owner = static_cast<int64_t>(i) / (kRows * kColumns);
      const auto wanted = static_cast<float>(kDepth * ((owner * 3 + run) % 97));
      if (lane.hostC[i] != wanted)
        return {StatusCode::WrongResult, "run " + std::to_string(run) + ", element " +
                                             std::to_string(i) + ": " +
                                             std::to_string(lane.hostC[i])};
    }
    return Status::ok();
  }

  Job &job_;
  const CompiledProgram program_;
  std::array<Lane, kStreams> lanes_;
};

Status runSessions(const std::shared_ptr<Job> &job, int runs) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::optional<CompiledProgram> program;
  for (const char *schedule : kSchedules) {
    Result<CompiledProgram> compiled =
        compileText("gpu_session_test", fusion(job->ranks()), {.schedule = schedule});
    if (!compiled)
      return compiled.status();
    program = *compiled;
    Result<std::unique_ptr<Session>> session = Session::prepare(job, *compiled);
    if (!session)
      return session.status();
    sessions.push_back(std::move(*session));
  }
  Caller caller(*job, *program);
  if (Status status = caller.expectRefusals(*sessions[0]); !status.isOk())
    return status;
  if (Status status = caller.capture(*sessions[(kStreams - 1) % kSessions]); !status.isOk())
    return status;
  for (int run = 0; run < runs; run += static_cast<int>(kStreams))
    if (Status status = caller.runAll(sessions, run); !status.isOk())
      return status;
  return job->commit();
}

int rankMain(const Place &place, int runs) {
  cudaSetDevice(static_cast<int>(place.localRank) % std::max(countGpus(), 1));
  Result<std::shared_ptr<Job>> job = Job::join({.backend = "cuda"});
  Status status = job ? runSessions(*job, runs) : job.status();
  if (job && !status.isOk())
    status = (*job)->fail(status);
  return static_cast<int>(status.code());
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  return braid::test::gpuJobMain(argc, argv, "sessions", braid::test::rankMain);
}
