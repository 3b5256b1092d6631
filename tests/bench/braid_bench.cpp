//===- tests/bench/braid_bench.cpp - host time of lowering, Plans and issuing -----------------===//
//
// The limits in tools/bench/README.md apply to release builds.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/lower.h"
#include "runtime/check/checker.h"
#include "runtime/plan/specialize.h"
#include "tests/support/local_mesh.h"

#include <benchmark/benchmark.h>

namespace braid {
namespace {

constexpr const char *kText = R"(fusion @ag_matmul(D = 8, M = 1024, K = 1024, N = 1024) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
}
)";

const Configuration kChunked = Configuration().set(Knob::Chunks, 64);

std::unique_ptr<Source> sourceFor(int64_t ranks, int64_t rows) {
  auto source = parseSource("bench.braid", kText);
  source->module.fusions.front()->setParameter("D", ranks);
  source->module.fusions.front()->setParameter("M", rows);
  return source;
}

/// Measures lowering, without parsing and verifying the fusion.
void lowerWith(benchmark::State &state, int64_t ranks, int64_t rows,
               const Configurations &options) {
  auto source = sourceFor(ranks, rows);
  for (auto _ : state) {
    auto program = lower(source->module, *source->module.fusions.front(), options, source->diags);
    if (!program)
      return state.SkipWithError(source->diags.str().c_str());
    benchmark::DoNotOptimize(program->get());
  }
}

void BM_LowerPairwise8(benchmark::State &state) { lowerWith(state, 8, 1024, {}); }
BENCHMARK(BM_LowerPairwise8)->Unit(benchmark::kMillisecond);

/// Each shard of 1001 rows is divided into 64 ranges. Adjacent ranges differ in size.
void BM_LowerUneven512Chunks(benchmark::State &state) { lowerWith(state, 8, 8 * 1001, {kChunked}); }
BENCHMARK(BM_LowerUneven512Chunks)->Unit(benchmark::kMillisecond);

/// Measures making one rank's Plan, which unrolls the program.
void BM_PlanUneven512Chunks(benchmark::State &state) {
  auto source = sourceFor(8, 8 * 1001);
  auto program = lower(source->module, *source->module.fusions.front(), {kChunked}, source->diags);
  for (auto _ : state)
    benchmark::DoNotOptimize(specialize(**program, 3, source->diags).isOk());
}
BENCHMARK(BM_PlanUneven512Chunks)->Unit(benchmark::kMillisecond);

void BM_PlanOfOneOf512Ranks(benchmark::State &state) {
  auto source = sourceFor(512, 512 * 4);
  auto program =
      lower(source->module, *source->module.fusions.front(), Configurations{}, source->diags);
  size_t commands = 0;
  for (auto _ : state) {
    Result<Plan> plan = specialize(**program, 3, source->diags);
    commands = plan->commands.size();
  }
  state.counters["commands"] = static_cast<double>(commands);
}
BENCHMARK(BM_PlanOfOneOf512Ranks)->Unit(benchmark::kMillisecond);

/// Measures Prepared::run on a device that does nothing, which is the executor's cost per command.
void BM_IssueOnNull(benchmark::State &state) {
  auto source = sourceFor(8, 8 * 64);
  Result<Compiled> compiled = compile(*source, {.schedule = {kChunked}});
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("null"), {.ranks = 8});
  Status status = compiled ? (*mesh)->prepare(*compiled) : compiled.status();
  if (!status.isOk())
    return state.SkipWithError(status.message().c_str());
  std::vector<char> memory(1 << 21);
  std::vector<const void *> inputs(2, memory.data());
  std::vector<void *> outputs(1, memory.data());
  Prepared &prepared = (*mesh)->prepared(0);
  for (auto _ : state)
    prepared.run(inputs, outputs);
  auto commands = static_cast<double>(prepared.plan().commands.size());
  state.counters["commands"] = commands;
  state.counters["s_per_command"] = benchmark::Counter(
      commands, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_IssueOnNull)->Unit(benchmark::kMicrosecond);

/// Measures checking the Plans of all ranks for three runs, without making the Plans.
void BM_CheckPairwise(benchmark::State &state) {
  auto source = sourceFor(state.range(0), state.range(0) * 4);
  auto program =
      lower(source->module, *source->module.fusions.front(), Configurations{}, source->diags);
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < state.range(0); ++rank)
    plans.push_back(*specialize(**program, rank, source->diags));
  for (auto _ : state) {
    Result<CheckReport> report = check(plans, source->module.fusions.front().get(), {});
    if (!report || !report->isSafe())
      return state.SkipWithError("not safe");
    state.counters["commands"] = static_cast<double>(report->commands);
  }
}
BENCHMARK(BM_CheckPairwise)
    ->Arg(8)
    ->Arg(16)
    ->Arg(32)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

/// Measures parsing and verifying a program.
void BM_ParseAndVerify(benchmark::State &state) {
  auto source = sourceFor(8, 1024);
  Result<Compiled> compiled = compile(*source, {});
  std::string text = str(*compiled->program);
  // Remove the reference to the fusion, because the text does not contain the fusion.
  text.replace(text.find(" implements @ag_matmul"), 22, "");
  for (auto _ : state) {
    auto again = parseSource("bench.braid", text);
    if (!verify(again->module, again->diags))
      return state.SkipWithError(again->diags.str().c_str());
  }
}
BENCHMARK(BM_ParseAndVerify)->Unit(benchmark::kMicrosecond);

} // namespace
} // namespace braid

BENCHMARK_MAIN();
