#include "tests/support/configured.h"

#include "api/compile/plans.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "runtime/plan/specialize.h"
#include "runtime/simulate/alike_ranks.h"

#include <fmt/format.h>

#include <gmock/gmock.h>

namespace braid {
namespace {

constexpr const char *kGather = R"(fusion @gather(D = 4, M = 20160, K = 64, N = 256) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
})";
constexpr const char *kScatter = R"(fusion @scatter(D = 4, M = 20160, K = 64, N = 256) {
  mesh [0 .. D)
  %A = input bf16[D, M/D, DIDx{D}, K]
  %B = input bf16[DIDx{D}, K, N]
  %C = matmul %A, %B : bf16[DIDx{D}, M/D, N]
  output %C
})";
/// Rank 0 sends to all others: no two ranks do the same.
constexpr const char *kStar = R"(program @star mesh [0 .. 3) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[4]
  %h = share_mem_handles get %all
  if rank == 0 {
    set %all, %A
    for %i in 1 .. 3 {
      %s = p2p send %all to %i via %h
      wait %s
    }
    set %C, %all
  } else {
    %r = p2p recv %all from 0 via %h
    wait %r
    set %C, %all
  }
})";

struct Compiling {
  std::unique_ptr<Source> source;
  Result<Compiled> compiled;
  Compiling(const char *text, int64_t ranks, const std::string &schedule)
      : source(parseSource("t.braid", text)), compiled(compileIt(ranks, schedule)) {}
  Result<Compiled> compileIt(int64_t ranks, const std::string &schedule) {
    CompileOptions options;
    options.ranks = ranks;
    options.schedule = test::configured(schedule);
    return compile(*source, options);
  }
};

/// One rank for all takes exactly as long as all ranks, whatever they do.
TEST(AlikeRanks, TakeAsLongAsAll) {
  const Result<CostModel> model = findMachine("h200-4");
  ASSERT_TRUE(model.isOk());
  size_t compared = 0;
  for (const char *text : {kGather, kScatter})
    for (const char *schedule :
         {"pairwise", "pairwise;protocol=put;chunks=2", "pairwise;placement=shared", "ring",
          "batched", "coalesced", "bulk", "sequential", "pairwise;streams=2;tail-split=2"})
      for (int64_t ranks : {2, 3, 5, 8}) {
        const Compiling made(text, ranks, schedule);
        if (!made.compiled)
          continue; // not for this direction
        const Result<std::vector<Plan>> all = makePlans(*made.compiled);
        const Result<std::vector<Plan>> few = plansToSimulate(*made.compiled);
        ASSERT_TRUE(all.isOk() && few.isOk());
        // Where the mesh ends, groups of blocks may be cut at other places on each rank.
        if (schedule != llvm::StringRef("coalesced")) {
          ASSERT_EQ(few->size(), 1u) << schedule;
        }
        for (LaunchMode mode : {LaunchMode::Eager, LaunchMode::Graph}) {
          const Result<MachinePrediction> whole = simulateProgram(*all, *model, {mode, {}});
          const Result<MachinePrediction> one = simulateProgram(*few, *model, {mode, {}});
          ASSERT_TRUE(whole.isOk()) << whole.status().message();
          ASSERT_TRUE(one.isOk()) << one.status().message();
          EXPECT_NEAR(one->us, whole->us, 1e-6 * whole->us)
              << made.compiled->program->name() << " " << schedule << " on " << ranks;
          EXPECT_NEAR(one->efficiency(), whole->efficiency(), 1e-6);
          ++compared;
        }
      }
  EXPECT_GT(compared, 80u);
}

TEST(AlikeRanks, AreAllThereWhereTheyDiffer) {
  const auto source = parseSource("t.braid", kStar);
  const Result<Compiled> compiled = compile(*source, {});
  ASSERT_TRUE(compiled.isOk()) << source->diags.str();
  const Result<std::vector<Plan>> plans = plansToSimulate(*compiled);
  ASSERT_TRUE(plans.isOk()) << plans.status().message();
  EXPECT_EQ(plans->size(), 3u);
}

/// Each difference is seen, whichever rank has it.
TEST(AlikeRanks, AreToldFromOthers) {
  const Compiling made(kGather, 4, "pairwise");
  ASSERT_TRUE(made.compiled.isOk());
  const Result<std::vector<Plan>> plans = makePlans(*made.compiled);
  ASSERT_TRUE(plans.isOk());
  const Plan &first = plans->front();
  EXPECT_TRUE(isMoved((*plans)[3], first));
  using Change = void (*)(Plan &);
  for (Change change : {Change([](Plan &plan) { plan.endpoints[0].peer ^= 1; }),
                        Change([](Plan &plan) { plan.commands.back().stream ^= 1; }),
                        Change([](Plan &plan) { plan.commands.pop_back(); }),
                        Change([](Plan &plan) { plan.matmuls[0].m += 1; }),
                        Change([](Plan &plan) { plan.endpoints[1].range.bytes += 2; }),
                        Change([](Plan &plan) { plan.flags += 1; })}) {
    Plan changed = (*plans)[2];
    change(changed);
    EXPECT_FALSE(isMoved(changed, first));
  }
}

/// A period of two: what each second rank does.
TEST(AlikeRanks, HaveTheirPeriod) {
  const Compiling made(kGather, 6, "pairwise");
  ASSERT_TRUE(made.compiled.isOk());
  const Result<std::vector<Plan>> plans = makePlans(*made.compiled);
  ASSERT_TRUE(plans.isOk());
  auto planOfRank = [&](int64_t rank) -> Result<Plan> {
    Plan plan = (*plans)[static_cast<size_t>(rank)];
    if (rank % 2 == 1)
      plan.matmuls[0].n += 8;
    return plan;
  };
  const Result<std::vector<Plan>> two = plansOfPeriod(6, {1, 2, 3}, planOfRank);
  ASSERT_TRUE(two.isOk());
  EXPECT_EQ(two->size(), 2u);
  for (const Plan &plan : *two)
    for (const Endpoint &endpoint : plan.endpoints) {
      const EndpointKey partner = partnerKeyOf(plan, endpoint, 2);
      const Plan &other = (*two)[static_cast<size_t>(std::get<0>(partner))];
      size_t found = 0;
      for (const Endpoint &each : other.endpoints)
        found += keyOf(other, each) == partner ? 1 : 0;
      EXPECT_EQ(found, 1u);
    }
}

} // namespace
} // namespace braid
