#include "tests/support/configured.h"

#include "api/compile/plans.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "runtime/execute/peer_memory.h"
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
constexpr const char *kAllReduce = R"(fusion @all_reduce(D = 4, M = 20160, K = 64, N = 256) {
  mesh [0 .. D)
  %A = input bf16[M, DIDx{D}, K]
  %B = input bf16[DIDx{D}, K, N]
  %C = matmul %A, %B : bf16[M, N]
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
  Compiling(const std::string &text, int64_t ranks, const std::string &schedule,
            Transport transport = Transport::PeerMemory)
      : source(parseSource("t.braid", text)), compiled(compileIt(ranks, schedule, transport)) {}
  Result<Compiled> compileIt(int64_t ranks, const std::string &schedule, Transport transport) {
    CompileOptions options;
    options.ranks = ranks;
    options.schedule = test::configured(schedule);
    options.transport = transport;
    return compile(*source, options);
  }
};

/// Rank 0 does the first command, all others do the second.
std::string twoKinds(const char *first, const char *other) {
  return fmt::format(R"(program @two mesh [0 .. 4) (%A: bf16[64, 64], %B: bf16[64, 64],
    %X: bf16[64, 64], %Y: f32[64, 64]) -> (%C: bf16[64, 64]) {{
  if rank == 0 {{
    {}
  }} else {{
    {}
  }}
}})",
                     first, other);
}

/// Two kinds of ranks that differ by what one of them reads, or allocates.
TEST(AlikeRanks, ReadAndTakeAsMuch) {
  const std::pair<const char *, const char *> kinds[] = {
      {"matmul %C, %A, %B", "matmul %C, %A, %B add %X"},
      {"pointwise %C, add(%A, %X)", "pointwise %C, add(%A, %Y)"},
      {"%t = allocate device bf16[1, 64, 64]\n %h = select %t[0]\n set %h, %A\n set %C, %h",
       "%t = allocate device bf16[2, 64, 64]\n %h = select %t[1]\n set %h, %A\n set %C, %h"}};
  for (const auto &[one, other] : kinds)
    for (const std::string &text : {twoKinds(one, other), twoKinds(other, one)}) {
      const Compiling made(text, 4, "");
      ASSERT_TRUE(made.compiled.isOk()) << made.source->diags.str();
      const Result<std::vector<Plan>> plans = plansToSimulate(*made.compiled);
      ASSERT_TRUE(plans.isOk());
      EXPECT_EQ(plans->size(), 4u) << text;
    }
}

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
        ASSERT_EQ(few->size(), 1u) << schedule << " on " << ranks;
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

struct Mesh {
  int64_t hosts, ranksPerHost;
};
constexpr Mesh kMeshes[] = {{2, 1}, {5, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 4}, {2, 8}, {7, 3}};

/// The fusion with its mesh on hosts.
std::string onHosts(llvm::StringRef text, int64_t ranksPerHost) {
  const auto [before, behind] = text.split("D)\n");
  return fmt::format("{}D) of {}\n{}", before.str(), ranksPerHost, behind.str());
}

/// The ranks of one host, for all hosts, do each thing at exactly the same moment as all ranks.
void expectSame(const Compiled &compiled, const CostModel &model, const SimulationOptions &options,
                const std::string &what) {
  const Result<std::vector<Plan>> all = makePlans(compiled), few = plansToSimulate(compiled);
  ASSERT_TRUE(all.isOk() && few.isOk()) << what;
  ASSERT_LT(few->size(), all->size()) << what;
  const Result<Simulation> whole = simulate(*all, model, options),
                           part = simulate(*few, model, options);
  ASSERT_TRUE(whole.isOk()) << what << ": " << whole.status().message();
  ASSERT_TRUE(part.isOk()) << what << ": " << part.status().message();
  EXPECT_EQ(part->us, whole->us) << what;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const std::vector<SimulatedSpan> &is = part->spans[rank % few->size()],
                                     &expected = whole->spans[rank];
    ASSERT_EQ(is.size(), expected.size()) << what;
    for (size_t i = 0; i < is.size(); ++i) {
      ASSERT_EQ(is[i].beginUs, expected[i].beginUs) << what << " rank " << rank << ", " << i;
      ASSERT_EQ(is[i].endUs, expected[i].endUs) << what << " rank " << rank << ", " << i;
    }
  }
}

TEST(AlikeRanks, OfHostsDoEachThingAtTheSameMoment) {
  const Result<CostModel> model = findMachine("h200-4");
  ASSERT_TRUE(model.isOk());
  size_t compared = 0;
  for (const char *text : {kGather, kScatter, kAllReduce})
    for (const char *schedule :
         {"hierarchical", "hierarchical;reduction=two-shot", "hierarchical;protocol=put;streams=2",
          "hierarchical;chunks=2;placement=shared", "hierarchical;streams=7;reduction=two-shot",
          "pairwise;protocol=get", "ring", "batched", "bulk", "sequential", "collective"})
      for (const Mesh &mesh : kMeshes) {
        const Compiling made(onHosts(text, mesh.ranksPerHost), mesh.hosts * mesh.ranksPerHost,
                             schedule);
        if (!made.compiled)
          continue; // not for this direction or these hosts
        for (LaunchMode mode : {LaunchMode::Eager, LaunchMode::Graph})
          expectSame(*made.compiled, *model, {mode, {}},
                     fmt::format("{} {} on {} x {}", made.compiled->program->name(), schedule,
                                 mesh.hosts, mesh.ranksPerHost));
        ++compared;
      }
  EXPECT_GT(compared, 100u);
}

/// Over messages, whether the model knows what they cost or not.
TEST(AlikeRanks, SendMessagesAtTheSameMoment) {
  for (bool isKnown : {false, true})
    for (const char *text : {kGather, kScatter, kAllReduce})
      for (const char *schedule : {"pairwise", "ring", "collective", "bulk"}) {
        CostModel model = *findMachine("h200-4");
        if (isKnown)
          for (std::optional<CollectiveKind> kind :
               {std::optional<CollectiveKind>(), std::optional(CollectiveKind::AllGather),
                std::optional(CollectiveKind::ReduceScatter),
                std::optional(CollectiveKind::AllReduce)})
            model.add(MessageCost{LaunchMode::Graph, kind, 1 << 20, 50});
        const Compiling made(text, 6, schedule, Transport::Messages);
        if (made.compiled)
          expectSame(*made.compiled, model, {LaunchMode::Graph, {}},
                     fmt::format("{} {}", made.compiled->program->name(), schedule));
      }
}

/// If rows do not divide, the last host does something else.
TEST(AlikeRanks, OfHostsAreAllThereWhereTheyDiffer) {
  for (const auto &[rows, expected] : {std::pair("20160", 2u), std::pair("20159", 6u)}) {
    std::string text = onHosts(kGather, 2);
    for (size_t at = text.find("M/D"); at != std::string::npos; at = text.find("M/D"))
      text.replace(at, 3, "ceil(M, D)");
    text.replace(text.find("20160"), 5, rows);
    const Compiling made(text, 6, "hierarchical");
    ASSERT_TRUE(made.compiled.isOk()) << made.source->diags.str();
    const Result<std::vector<Plan>> plans = plansToSimulate(*made.compiled);
    ASSERT_TRUE(plans.isOk());
    EXPECT_EQ(plans->size(), expected) << rows;
  }
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

/// Two ranks that send as much differ if one sends what its kernel has just added.
TEST(AlikeRanks, GoOnInTheSameKernels) {
  const Compiling made(kAllReduce, 4, "bulk;reduction=two-shot;second-shot=put");
  ASSERT_TRUE(made.compiled.isOk());
  const Result<std::vector<Plan>> plans = makePlans(*made.compiled);
  ASSERT_TRUE(plans.isOk());
  EXPECT_TRUE(isMoved((*plans)[2], plans->front()));
  Plan changed = (*plans)[2];
  size_t count = 0;
  for (Command &command : changed.commands)
    if (gives(command, changed.sums.front())) {
      command.src = changed.sums.front().parts;
      command.src.bytes = command.dst.bytes;
      ++count;
    }
  EXPECT_EQ(count, 3u);
  EXPECT_FALSE(isMoved(changed, plans->front()));
}

/// Nor is a difference in messages missed.
TEST(AlikeRanks, OfHostsAreToldFromOthers) {
  using Change = void (*)(Plan &);
  const auto expectSeen = [](const char *schedule, std::initializer_list<Change> changes) {
    const Compiling made(onHosts(kGather, 2), 6, schedule);
    ASSERT_TRUE(made.compiled.isOk());
    const Result<std::vector<Plan>> plans = makePlans(*made.compiled);
    ASSERT_TRUE(plans.isOk());
    EXPECT_TRUE(isMoved((*plans)[4], (*plans)[0]));
    EXPECT_FALSE(isMoved((*plans)[1], (*plans)[0])) << "half a host further on";
    for (Change change : changes) {
      Plan changed = (*plans)[4];
      change(changed);
      EXPECT_FALSE(isMoved(changed, (*plans)[0])) << schedule;
    }
  };
  expectSeen("hierarchical", {[](Plan &plan) { plan.groups[0][0].peer ^= 1; },
                              [](Plan &plan) { plan.groups[0][0].range.bytes += 2; },
                              [](Plan &plan) { std::swap(plan.groups[0][0], plan.groups[0][1]); },
                              [](Plan &plan) { plan.groups.pop_back(); },
                              [](Plan &plan) { plan.ranksPerHost = 3; }});
  expectSeen("collective", {[](Plan &plan) { plan.collectives[0].kind = CollectiveKind::AllToAll; },
                            [](Plan &plan) { plan.collectives[0].team.pop_back(); },
                            [](Plan &plan) { plan.collectives[0].root = 0; },
                            [](Plan &plan) { plan.collectives[0].src.bytes += 2; }});
}

/// A team that only some hosts have is nobody else's moved.
TEST(AlikeRanks, MoveTeamsOntoThemselves) {
  const Compiling made(onHosts(kGather, 2), 6, "collective");
  ASSERT_TRUE(made.compiled.isOk());
  Result<std::vector<Plan>> plans = makePlans(*made.compiled);
  ASSERT_TRUE(plans.isOk());
  const auto isMovedWith = [&](const std::vector<int64_t> &team) {
    for (Plan &plan : *plans)
      plan.collectives[0].team = team;
    return isMoved((*plans)[2], (*plans)[0]);
  };
  EXPECT_TRUE(isMovedWith({0, 2, 4}));
  EXPECT_TRUE(isMovedWith({2, 4, 0}));
  EXPECT_FALSE(isMovedWith({0, 1, 2, 3}));
  EXPECT_FALSE(isMovedWith({0, 4, 2, 1, 3, 5})) << "in another order around";
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
