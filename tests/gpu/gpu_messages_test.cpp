//===- tests/gpu/gpu_messages_test.cpp - collectives and messages between GPUs ----------------===//
//
//   [BRAID_TEST_BACKEND=cuda|nccl] gpu_messages_test [--ranks N] [--runs R]
//
// Runs every collective with each type, team and root, and sizes from one element up, eagerly and
// replayed, with new tensors each time, and compares results. Then a rank issues kRunsAhead runs
// before its peer issues any, with two messages and with as many as a graph of `braid p2p` has.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "api/launch/job_rank.h"
#include "api/pairs/block_plans.h"
#include "api/ranks/arguments.h"
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

class RankTest {
public:
  RankTest(LocalMesh &mesh, Transport transport) : mesh_(mesh), transport_(transport) {}

  /// Executes the case `runs` times, alternating between eager runs and replays.
  Status run(const CollectiveCase &c, int runs) {
    const std::unique_ptr<Source> source = parseSource("c.braid", c.text());
    Compiled compiled = BRAID_TRY(compile(*source, {.transport = transport_}));
    plans_.push_back(BRAID_TRY(makePlans(compiled)));
    BRAID_TRY(mesh_.prepare(plans_.back(), TransferMode()));
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
  std::list<std::vector<Plan>> plans_; ///< the mesh refers to them
};

Status runAll(LocalMesh &mesh, Transport transport, int runs) {
  RankTest test(mesh, transport);
  const int few = std::max(runs / 100, 4);
  for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64})
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

/// Each rank in turn issues all its runs before the other rank issues any run.
Status goAhead(Prepared &prepared, bool isGraph, Device &device, ControlPlane &control) {
  for (int64_t turn = 0; turn < 2; ++turn) {
    if (control.rank() == turn)
      BRAID_TRY(control.allGather(""));
    for (int64_t i = 0; i < kRunsAhead; ++i)
      if (isGraph)
        prepared.replay();
      else
        prepared.run({}, {});
    if (control.rank() != turn)
      BRAID_TRY(control.allGather(""));
    BRAID_TRY(device.synchronize());
  }
  return Status::ok();
}

int aheadMain(const Place &place, int) {
  std::list<std::vector<Plan>> plans; // must outlive the mesh
  return withMesh(place, [&plans](LocalMesh &mesh, Transport) -> Status {
    const int64_t rank = mesh.firstHosted();
    const bool isGraph = backendOfTest().hasGraphs;
    if (mesh.ranks() > 2) // additional ranks would be idle
      return mesh.cluster().commit();
    for (const int64_t turns : {1, 32})
      for (const int64_t bytes : {int64_t(4), int64_t(1) << 20}) {
        plans.push_back(BRAID_TRY(
            blockPlans({Path::Messages, 0, /*andBack=*/true, bytes, /*slots=*/1, turns})));
        BRAID_TRY(mesh.prepare(plans.back(), TransferMode()));
        Prepared &prepared = mesh.prepared(rank);
        if (isGraph)
          BRAID_TRY(prepared.capture({}, {}));
        BRAID_TRY(goAhead(prepared, isGraph, mesh.device(rank), mesh.control(rank)));
      }
    return mesh.cluster().commit();
  });
}

std::vector<GpuJob> allJobs() {
  std::vector<GpuJob> jobs = {{"collectives", collectivesMain}};
  if (!sharesGpus()) // NCCL needs a GPU for each rank
    jobs.push_back({"runs ahead", aheadMain});
  return jobs;
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  return braid::test::gpuJobMain(argc, argv, braid::test::allJobs());
}
