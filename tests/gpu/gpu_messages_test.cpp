//===- tests/gpu/gpu_messages_test.cpp - collectives and messages of GPUs ---------------------===//
//
//   [BRAID_TEST_BACKEND=cuda|nccl] [BRAID_TEST_KNOBS=memory=nccl;ctas=4] gpu_messages_test
//       [--ranks N] [--runs R]
//
// Every collective, with each type, team and root, from one element on, is run eagerly and replayed
// with fresh tensors each time, and compared. Communicators, with memory that they know, are made
// and closed forty times, and leave no memory behind. A rank issues kRunsAhead runs of as many
// messages as a graph has in `braid p2p`, and of two, before its peer issues any.
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/candidate.h"
#include "api/compile/plans.h"
#include "api/launch/job_rank.h"
#include "api/pairs/block_run.h"
#include "api/ranks/arguments.h"
#include "backends/cuda/cuda_status.h"
#include "backends/nccl/nccl_messages.h"
#include "ir/failure.h"
#include "tests/gpu/gpu_job.h"
#include "tests/support/collective_case.h"
#include "tests/support/elements.h"
#include "tests/support/local_mesh.h"

#include <fmt/format.h>

#include <cstring>
#include <list>

namespace braid::test {
namespace {

Backend backendOfTest() {
  const char *name = std::getenv("BRAID_TEST_BACKEND");
  return *builtinBackends().find(name ? name : "nccl");
}

/// The knobs of messages.
Configurations knobsOfTest() {
  const char *text = std::getenv("BRAID_TEST_KNOBS");
  return *Configurations::parse(text ? text : "");
}

class RankTest {
public:
  RankTest(LocalMesh &mesh, Transport transport) : mesh_(mesh), transport_(transport) {}

  /// `runs` of them, eager and replayed in turn.
  Status run(const CollectiveCase &c, int runs) {
    const std::unique_ptr<Source> source = parseSource("c.braid", c.text());
    Compiled compiled = BRAID_TRY(compile(*source, {.schedule = knobs_, .transport = transport_}));
    plans_.push_back(BRAID_TRY(makePlans(compiled)));
    BRAID_TRY(mesh_.prepare(plans_.back(), transferModeOf(knobs_.all)));
    return runPrepared(c, plans_.back()[static_cast<size_t>(rank())], runs).annotated(c.str());
  }

private:
  int64_t rank() const { return mesh_.firstHosted(); }

  Status runPrepared(const CollectiveCase &c, const Plan &plan, int runs) {
    Device &device = mesh_.device(rank());
    Prepared &prepared = mesh_.prepared(rank());
    Arguments arguments = BRAID_TRY(Arguments::allocate(plan, device));
    const RunArguments addresses = arguments.addresses();
    BRAID_TRY(prepared.capture(addresses.inputs, addresses.outputs));
    for (int run = 0; run < runs; ++run) {
      const std::vector<char> input = encodeAll(c.dtype, c.input(rank(), run));
      std::memcpy(arguments.input(0), input.data(), input.size());
      const auto bytes = static_cast<size_t>(c.resultElements() * sizeOf(c.dtype));
      for (size_t i = 0; i < 3; ++i)
        std::memset(arguments.output(i), 0xff, bytes);
      arguments.upload();
      if (run % 2 == 0)
        prepared.run(addresses.inputs, addresses.outputs);
      else
        prepared.replay();
      arguments.download();
      BRAID_TRY(device.synchronize());
      const auto expected = c.expected(rank(), run);
      for (size_t i = 0; expected && i < 3; ++i) {
        const auto *data = static_cast<const char *>(arguments.output(i));
        if (decodeAll(c.dtype, std::vector<char>(data, data + bytes)) != *expected)
          return Status(StatusCode::WrongResult, fmt::format("run {}, result {}", run, i));
      }
    }
    return Status::ok();
  }

  LocalMesh &mesh_;
  const Transport transport_;
  const Configurations knobs_ = knobsOfTest();
  std::list<std::vector<Plan>> plans_; ///< the mesh refers to them
};

Status runAll(LocalMesh &mesh, Transport transport, int runs) {
  RankTest test(mesh, transport);
  const int few = std::max(runs / 100, 4);
  const std::vector<DType> all = {DType::F32, DType::BF16, DType::F16, DType::F64};
  const size_t dtypes = std::getenv("BRAID_TEST_KNOBS") ? 1 : all.size(); // knobs know no types
  for (DType dtype : llvm::ArrayRef<DType>(all).take_front(dtypes))
    for (const CollectiveCase &c : collectiveCases(mesh.ranks(), dtype, {1, 1000}))
      BRAID_TRY(test.run(c, few));
  for (const CollectiveCase &c : collectiveCases(mesh.ranks(), DType::F32, {int64_t(1) << 20}))
    if (c.team.empty() && c.isStaged)
      BRAID_TRY(test.run(c, 2));
  if (transport == Transport::Messages)
    for (ReductionOperator op :
         {ReductionOperator::Product, ReductionOperator::Min, ReductionOperator::Max})
      for (CollectiveCase c : collectiveCases(mesh.ranks(), DType::F32, {100}))
        if (c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::ReduceScatter) {
          c.reduction = op;
          BRAID_TRY(test.run(c, 2));
        }
  return mesh.cluster().commit();
}

/// One gather among all ranks by what is made for it, all of which goes again.
Status makeAndClose(ControlPlane &control, TransferMode mode) {
  nccl::NcclMessages messages(nccl::Library::load, control.rank(), {std::chrono::seconds(20)});
  constexpr size_t kBytes = size_t(2) << 20;
  const bool isPlain = mode.memory == MemoryFrom::Default;
  std::unique_ptr<SymmetricMemory> memory;
  if (!isPlain)
    memory = BRAID_TRY(messages.symmetricMemory(mode.memory, control));
  void *data = nullptr;
  if (isPlain)
    BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&data, kBytes));
  else
    data = BRAID_TRY(memory->allocate(kBytes));
  Team all;
  for (int64_t rank = 0; rank < control.size(); ++rank)
    all.push_back(rank);
  BRAID_TRY(messages.openTeams({all}, control, mode));
  const auto block = static_cast<int64_t>(sizeof(float)) * 1000;
  char *own = static_cast<char *>(data) + kBytes / 2;
  const auto mine = static_cast<int>(control.rank()) + 1;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(own, mine, static_cast<size_t>(block)));
  BRAID_TRY(messages.collective(nullptr,
                                {CollectiveKind::AllGather, std::nullopt, DType::F32, all, -1, data,
                                 own, block * control.size(), block},
                                mode.ctas));
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr));
  std::vector<char> got(static_cast<size_t>(block * control.size()));
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemcpy(got.data(), data, got.size(), cudaMemcpyDefault));
  if (memory)
    memory->closePeers();
  BRAID_TRY(messages.close(std::chrono::seconds(5)));
  if (isPlain)
    BRAID_CUDA_RETURN_IF_ERROR(cudaFree(data));
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != static_cast<char>(i / static_cast<size_t>(block) + 1))
      return Status(StatusCode::WrongResult, fmt::format("byte {} is {}", i, int(got[i])));
  return Status::ok();
}

/// The free memory of this rank's GPU, in bytes, after all ranks have unmapped each other's memory.
Result<size_t> freeMemory(ControlPlane &control) {
  BRAID_TRY(control.allGather(""));
  size_t free = 0, total = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free, &total));
  return free;
}

/// Each way that this library has, in turn.
Status makeAndCloseOften(LocalMesh &mesh) {
  ControlPlane &control = mesh.control(mesh.firstHosted());
  const int version = BRAID_TRY(nccl::Library::load())->version;
  std::vector<TransferMode> modes = {{.ctas = {4, CtaPolicy::Default}},
                                     {.memory = MemoryFrom::NcclRegistered}};
  if (version >= 22800)
    modes.push_back({.memory = MemoryFrom::Nccl});
  if (version >= 23102)
    modes.push_back({.memory = MemoryFrom::Nccl, .ctas = {0, CtaPolicy::Zero}});
  constexpr size_t kRounds = 40, kMostLost = size_t(32) << 20;
  size_t first = 0;
  for (size_t round = 0; round < kRounds; ++round) {
    BRAID_TRY(makeAndClose(control, modes[round % modes.size()])
                  .annotated(fmt::format("round {}", round)));
    if (round + 1 == modes.size())
      first = BRAID_TRY(freeMemory(control));
  }
  const size_t last = BRAID_TRY(freeMemory(control));
  if (last + kMostLost < first)
    return internalError("{} bytes were free after the first rounds, {} at the end", first, last);
  return mesh.cluster().commit();
}

int withMesh(const Place &place, llvm::function_ref<Status(LocalMesh &, Transport)> fn) {
  Result<std::unique_ptr<JobRank>> rank = JobRank::join(place);
  if (!rank)
    return static_cast<int>(rank.status().code());
  const Backend backend = backendOfTest();
  auto job = JobState::join(backend, {.ranks = place.ranks, .timeout = std::chrono::seconds(20)},
                            std::move(*rank));
  if (!job)
    return static_cast<int>(job.status().code());
  LocalMesh mesh(std::move(*job));
  return endOfRank(mesh.job(), fn(mesh, backend.transport));
}

int collectivesMain(const Place &place, int runs) {
  return withMesh(place, [runs](LocalMesh &mesh, Transport transport) {
    return runAll(mesh, transport, runs);
  });
}

int communicatorsMain(const Place &place, int) {
  return withMesh(place, [](LocalMesh &mesh, Transport) { return makeAndCloseOften(mesh); });
}

/// Rank 0 issues nothing until rank 1 has issued all that it may.
Status goAhead(BlockRun &run, Device &device, ControlPlane &control) {
  for (int64_t turn = 0; turn < 2; ++turn) {
    if (control.rank() == turn)
      BRAID_TRY(control.allGather(""));
    for (int64_t i = 0; i < kRunsAhead; ++i)
      run.issue();
    if (control.rank() != turn)
      BRAID_TRY(control.allGather(""));
    BRAID_TRY(device.synchronize());
  }
  return Status::ok();
}

int aheadMain(const Place &place, int) {
  std::deque<std::vector<Plan>> plans; // outlives the mesh
  return withMesh(place, [&plans](LocalMesh &mesh, Transport) -> Status {
    const int64_t rank = mesh.firstHosted();
    const Backend backend = backendOfTest();
    if (mesh.ranks() > 2) // the others would do nothing
      return mesh.cluster().commit();
    BlockRuns runs{backend, mesh.cluster(), rank, plans};
    for (const int64_t turns : {1, 32})
      for (const int64_t bytes : {int64_t(4), int64_t(1) << 20}) {
        BlockRun run =
            BRAID_TRY(runs.make({Path::Messages, 0, /*andBack=*/true, bytes, /*slots=*/1, turns}));
        BRAID_TRY(goAhead(run, mesh.device(rank), mesh.control(rank)));
      }
    return mesh.cluster().commit();
  });
}

/// Communicators are made in each way that there is, whatever the knobs say.
std::vector<GpuJob> allJobs() {
  std::vector<GpuJob> jobs = {{"collectives", collectivesMain}};
  if (backendOfTest().transport == Transport::Messages && !std::getenv("BRAID_TEST_KNOBS"))
    jobs.push_back({"communicators", communicatorsMain});
  if (!std::getenv("BRAID_TEST_KNOBS") && !sharesGpus()) // NCCL needs a GPU for each rank
    jobs.push_back({"runs ahead", aheadMain});
  return jobs;
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  return braid::test::gpuJobMain(argc, argv, braid::test::allJobs());
}
