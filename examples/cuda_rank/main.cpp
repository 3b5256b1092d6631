//===- examples/cuda_rank/main.cpp - uses Braid in a process that already has a GPU -----------===//
//
// A launcher starts one process per GPU. Each process has its own stream and tensors.
//
//   mpirun -n 4 example_cuda_rank
//   torchrun --no-python --nproc-per-node 4 example_cuda_rank
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"

#include <cuda_runtime.h>

#include <cstdio>

using namespace braid;

namespace {

constexpr int64_t kRows = 512, kDepth = 256, kColumns = 128; // rows per rank

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

/// Allocates device memory, and sets all `elements` floats in it to `value` on `stream`.
void *filled(int64_t elements, float value, cudaStream_t stream) {
  const std::vector<float> host(static_cast<size_t>(elements), value);
  void *memory = nullptr;
  cudaMalloc(&memory, host.size() * sizeof(float));
  cudaMemcpyAsync(memory, host.data(), host.size() * sizeof(float), cudaMemcpyDefault, stream);
  return memory;
}

Status run(const std::shared_ptr<Job> &job) {
  Result<CompiledProgram> program = job->compileText("example", fusion(job->ranks()));
  if (!program)
    return program.status();
  if (job->firstRank() == 0)
    std::printf("%s\n", program->choice().c_str());
  Result<std::unique_ptr<Session>> session = Session::prepare(job, *program);
  if (!session)
    return session.status();
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const float mine = static_cast<float>(job->firstRank() + 1); // all elements of this rank's A
  const Tensor A(filled(kRows * kDepth, mine, stream), program->inputs()[0]);
  const Tensor B(filled(kDepth * kColumns, 1, stream), program->inputs()[1]);
  std::vector<float> result(static_cast<size_t>(job->ranks() * kRows * kColumns));
  const Tensor C(filled(job->ranks() * kRows * kColumns, -1, stream), program->outputs()[0]);
  if (Status status = (*session)->run({{A, B}}, {{C}}, stream); !status.isOk())
    return status;
  cudaMemcpyAsync(result.data(), C.data, result.size() * sizeof(float), cudaMemcpyDefault, stream);
  if (Status status = job->synchronize(); !status.isOk())
    return status;
  for (int64_t i = 0; i < static_cast<int64_t>(result.size()); ++i)
    if (result[i] != static_cast<float>((i / (kRows * kColumns) + 1) * kDepth))
      return {StatusCode::WrongResult, "element " + std::to_string(i) + " is wrong"};
  return job->commit();
}

} // namespace

int main() {
  Result<std::shared_ptr<Job>> job = Job::join({.backend = "cuda"});
  Status status = job ? run(*job) : job.status();
  if (job && !status.isOk())
    status = (*job)->fail(status);
  std::printf("%s\n", status.isOk() ? "every element is right" : status.message().c_str());
  return static_cast<int>(status.code());
}
