//===- tests/runtime/scatter_by_hand_test.cpp - what a reduction will look like, run by hand --===//

#include "api/compile/check.h"
#include "tests/support/local_mesh.h"
#include "tests/support/scatter_by_hand.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using namespace test::scatter;

constexpr int64_t kRanks = 4, kRuns = 20;

/// Runs follow one another without a wait in between, at addresses that change.
void runAndCompare(const Compiled &compiled, const ClusterOptions &options) {
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), options);
  ASSERT_TRUE(mesh.isOk()) << mesh.status().message();
  ASSERT_TRUE((*mesh)->prepare(compiled).isOk());
  std::vector<std::vector<Tensors>> runs(kRuns);
  for (int64_t run = 0; run < kRuns; ++run) {
    std::vector<RunArguments> arguments;
    for (int64_t rank = 0; rank < kRanks; ++rank)
      runs[run].push_back(drawn(run, rank, kRanks));
    for (Tensors &tensors : runs[run])
      arguments.push_back({{tensors.a.data(), tensors.b.data()}, {tensors.c.data()}});
    (*mesh)->run(arguments);
  }
  Status status = (*mesh)->synchronize();
  ASSERT_TRUE(status.isOk()) << status.message();
  for (int64_t run = 0; run < kRuns; ++run)
    for (int64_t rank = 0; rank < kRanks; ++rank)
      for (int64_t i = 0; i < kRows * kColumns; ++i)
        ASSERT_EQ(runs[run][rank].c[static_cast<size_t>(i)], expected(runs[run], rank, i))
            << "run " << run << ", rank " << rank << ", element " << i;
}

TEST(ScatterByHand, AddsWhatThePeersHaveComputed) {
  auto source = readSource("examples/matmul_scatter_by_hand.braid");
  ASSERT_TRUE(source.isOk()) << source.status().message();
  Result<Compiled> compiled = compile(**source, {});
  ASSERT_TRUE(compiled.isOk()) << (*source)->diags.str();
  Result<CheckReport> report = checkProgram(*compiled, {.queues = 1});
  ASSERT_TRUE(report.isOk() && report->isSafe());
  runAndCompare(*compiled, {.ranks = kRanks});
  for (uint64_t seed = 0; seed < 20; ++seed)
    runAndCompare(*compiled,
                  {.ranks = kRanks, .scheduleSeed = seed, .queues = 1 + uint32_t(seed % 3)});
}

} // namespace
} // namespace braid
