//===- examples/cuda_rank/main.cpp - Braid inside a process that has a GPU already ------------===//
//
// A program that somebody else starts, one process for each GPU, with streams and tensors of its
// own. It hands Braid its stream and device pointers, and finds the result there:
//
//   mpirun -n 4 example_cuda_rank examples/ag_matmul.braid
//   torchrun --no-python --nproc-per-node 4 example_cuda_rank examples/ag_matmul.braid
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile.h"
#include "api/launch/job_rank.h"
#include "api/plans.h"
#include "backends/cuda/cuda_backend.h"
#include "runtime/execute/executor.h"
#include "runtime/reference/reference.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <memory>
#include <vector>

using namespace braid;

namespace {

constexpr uint32_t kRuns = 10;

/// The tensors of an existing program: in device memory, filled and read on its own stream.
class Tensors {
public:
  Tensors(const Plan &plan, const Reference &reference, cudaStream_t stream)
      : plan_(plan), reference_(reference), stream_(stream) {
    for (uint32_t buffer : plan.inputs)
      inputs_.push_back(allocate(plan.buffers[buffer].bytes));
    for (uint32_t buffer : plan.outputs)
      outputs_.push_back(allocate(plan.buffers[buffer].bytes));
  }
  ~Tensors() {
    for (const void *input : inputs_)
      cudaFree(const_cast<void *>(input));
    for (void *output : outputs_)
      cudaFree(output);
  }
  llvm::ArrayRef<const void *> inputs() const { return inputs_; }
  llvm::MutableArrayRef<void *> outputs() { return outputs_; }

  void fill(uint32_t run) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<char> host(static_cast<size_t>(plan_.buffers[plan_.inputs[i]].bytes));
      reference_.fillInput(i, plan_.rank, run, host.data());
      cudaMemcpyAsync(const_cast<void *>(inputs_[i]), host.data(), host.size(),
                      cudaMemcpyHostToDevice, stream_);
    }
  }

  /// After cudaStreamSynchronize, as for any other work on the stream.
  Status compare(uint32_t run) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::vector<char> host(static_cast<size_t>(plan_.buffers[plan_.outputs[i]].bytes));
      cudaMemcpyAsync(host.data(), outputs_[i], host.size(), cudaMemcpyDeviceToHost, stream_);
      cudaStreamSynchronize(stream_);
      if (Status status = reference_.compare(i, plan_.rank, run, host.data()); !status.isOk())
        return status;
    }
    return Status::ok();
  }

private:
  static void *allocate(int64_t bytes) {
    void *memory = nullptr;
    cudaMalloc(&memory, static_cast<size_t>(bytes));
    return memory;
  }

  const Plan &plan_;
  const Reference &reference_;
  const cudaStream_t stream_;
  std::vector<const void *> inputs_;
  std::vector<void *> outputs_;
};

Status runJob(JobRank &job, const Place &place, const char *file) {
  // What the process has before Braid comes into it: a device and a stream.
  cudaSetDevice(static_cast<int>(place.localRank));
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);

  Result<std::unique_ptr<Source>> source = readSource(file);
  if (!source)
    return source.status();
  Result<Compiled> compiled = compile(**source, {.ranks = place.ranks});
  if (!compiled)
    return compiled.status().annotated((*source)->diags.str());
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return plans.status();
  job.setPlans(*plans);
  const Plan &plan = (*plans)[static_cast<size_t>(place.rank)];

  Result<std::unique_ptr<Cluster>> cluster =
      joinCuda({.ranks = place.ranks}, job.takeClient(),
               {.device = static_cast<int>(place.localRank), .stream = stream});
  if (!cluster)
    return cluster.status();
  (*cluster)->setPlans(*plans);
  Transport &transport = (*cluster)->transport(place.rank);
  Result<std::unique_ptr<Prepared>> prepared =
      prepare(plan, (*cluster)->device(place.rank), transport);
  if (!prepared)
    return prepared.status();

  Reference reference(*compiled->fusion, /*seed=*/1);
  Tensors tensors(plan, reference, stream);
  for (uint32_t run = 0; run < kRuns; ++run) {
    tensors.fill(run);
    (*prepared)->run(tensors.inputs(), tensors.outputs()); // in stream order, like a kernel launch
    if (Status status = (*cluster)->device(place.rank).synchronize(); !status.isOk())
      return status;
    if (Status status = tensors.compare(run); !status.isOk())
      return status;
  }
  return transport.commit();
}

} // namespace

int main(int argc, char **argv) {
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (argc != 2 || !place || !*place) {
    std::fprintf(stderr, "usage: mpirun -n RANKS %s FILE.braid%s\n", argv[0],
                 place ? "" : ("\n" + place.status().message()).c_str());
    return static_cast<int>(StatusCode::BadInput);
  }
  Result<std::unique_ptr<JobRank>> job = JobRank::join(**place, {});
  if (!job) {
    std::fprintf(stderr, "rank %d: %s\n", static_cast<int>((*place)->rank),
                 job.status().message().c_str());
    return static_cast<int>(job.status().code());
  }
  Status status = runJob(**job, **place, argv[1]);
  if (!status.isOk())
    status = (*job)->fail(status);
  std::printf("rank %d of %d: %s\n", static_cast<int>((*place)->rank),
              static_cast<int>((*place)->ranks),
              status.isOk() ? "every run exact" : status.message().c_str());
  return static_cast<int>(status.code());
}
