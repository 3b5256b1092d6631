//===- tests/gpu/gpu_messages_test.cpp - collectives and messages of GPUs ---------------------===//
//
//   [BRAID_TEST_BACKEND=cuda|nccl] gpu_messages_test [--ranks N] [--runs R]
//
// Every collective, with each type, team and root, from one element on, is run eagerly and replayed
// with fresh tensors each time, and compared; jobs are made and ended in one process.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "api/launch/job_rank.h"
#include "api/ranks/arguments.h"
#include "api/ranks/mesh.h"
#include "api/ranks/run.h"
#include "ir/failure.h"
#include "tests/gpu/gpu_job.h"
#include "tests/support/collective_case.h"
#include "tests/support/elements.h"

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

  /// `runs` of them, eager and replayed in turn.
  Status run(const CollectiveCase &c, int runs) {
    const std::unique_ptr<Source> source = parseSource("c.braid", c.text());
    Compiled compiled = BRAID_TRY(compile(*source, {.transport = transport_}));
    plans_.push_back(BRAID_TRY(makePlans(compiled)));
    BRAID_TRY(mesh_.prepare(plans_.back()));
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

int finish(JobRank &job, LocalMesh *mesh, Status status) {
  if (!status.isOk() && mesh)
    status = mesh->fail(status);
  if (!status.isOk())
    status = job.fail(status);
  return static_cast<int>(status.code());
}

Status runAll(LocalMesh &mesh, Transport transport, int runs) {
  RankTest test(mesh, transport);
  const int few = std::max(runs / 100, 4);
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64})
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
  return mesh.commit();
}

int rankMain(const Place &place, int runs) {
  Result<std::unique_ptr<JobRank>> job = JobRank::join(place);
  if (!job)
    return static_cast<int>(job.status().code());
  const Backend backend = backendOfTest();
  auto mesh = LocalMesh::join(backend, {.ranks = place.ranks, .timeout = std::chrono::seconds(20)},
                              (*job)->takeClient());
  if (!mesh)
    return finish(**job, nullptr, mesh.status());
  return finish(**job, mesh->get(), runAll(**mesh, backend.transport, runs));
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid::test;
  return gpuJobMain(argc, argv, {{"collectives", rankMain}});
}
