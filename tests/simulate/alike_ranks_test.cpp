#include "tests/support/configured.h"

#include "api/compile/plans.h"
#include "api/simulate/machines.h"
#include "api/simulate/simulate_program.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/plan/specialize.h"
#include "runtime/simulate/steps.h"

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
/// A program in which rank 0 sends to all other ranks, so no rank represents another one.
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

/// Returns a program in which rank 0 executes the first command, and all other ranks the second.
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

/// If rank 0 differs from the other ranks only in the operands that it reads or in the memory that
/// it allocates, no rank represents the others.
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

struct Mesh {
  int64_t hosts, ranksPerHost;
};
constexpr Mesh kMeshes[] = {{1, 2}, {1, 3}, {1, 8}, {2, 1}, {5, 1}, {2, 2}, {3, 2}, {4, 4}, {7, 3}};

/// Returns the fusion with its mesh divided into hosts of `ranksPerHost` ranks.
std::string onHosts(llvm::StringRef text, int64_t ranksPerHost) {
  const auto [before, after] = text.split("D)\n");
  return fmt::format("{}D) of {}\n{}", before.str(), ranksPerHost, after.str());
}

/// Expects the commands of the representative ranks to begin and end at the same times as in a
/// simulation of all ranks.
void expectSame(const Compiled &compiled, const CostModel &model, const SimulationOptions &options,
                const std::string &what) {
  const Result<std::vector<Plan>> all = makePlans(compiled), few = plansToSimulate(compiled);
  ASSERT_TRUE(all.isOk() && few.isOk()) << what;
  ASSERT_LT(few->size(), all->size()) << what;
  const Result<Simulation> whole = simulate(*all, model, options),
                           part = simulate(*few, model, options);
  ASSERT_TRUE(whole.isOk()) << what << ": " << whole.status().message();
  ASSERT_TRUE(part.isOk()) << what << ": " << part.status().message();
  const double tolerance = 1e-6 * whole->us;
  EXPECT_NEAR(part->burstUs, whole->burstUs, tolerance) << what;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const std::vector<SimulatedSpan> &is = part->spans[rank % few->size()],
                                     &expected = whole->spans[rank];
    ASSERT_EQ(is.size(), expected.size()) << what;
    for (size_t i = 0; i < is.size(); ++i) {
      ASSERT_NEAR(is[i].beginUs, expected[i].beginUs, tolerance) << what << " rank " << rank;
      ASSERT_NEAR(is[i].endUs, expected[i].endUs, tolerance) << what << " rank " << rank;
    }
  }
}

TEST(AlikeRanks, DoEachThingAtTheSameMomentAsAll) {
  const Result<CostModel> model = findMachine("h200-4");
  ASSERT_TRUE(model.isOk());
  size_t compared = 0;
  for (const char *text : {kGather, kScatter, kAllReduce})
    for (const char *schedule :
         {"hierarchical", "hierarchical;protocol=put;streams=2",
          "hierarchical;chunks=2;placement=shared", "hierarchical;streams=7;reduction=two-shot",
          "pairwise;protocol=put;chunks=2", "pairwise;streams=2;tail-split=2", "ring", "batched",
          "coalesced", "bulk", "sequential", "collective"})
      for (const Mesh &mesh : kMeshes) {
        const Compiling made(mesh.hosts == 1 ? text : onHosts(text, mesh.ranksPerHost),
                             mesh.hosts * mesh.ranksPerHost, schedule);
        if (!made.compiled || (mesh.hosts > 1 && schedule == std::string("coalesced")))
          continue; // the schedule does not support this direction or these hosts
        for (LaunchMode mode : {LaunchMode::Eager, LaunchMode::Graph})
          expectSame(*made.compiled, *model, {mode, {}},
                     fmt::format("{} {} on {} x {}", made.compiled->program->name(), schedule,
                                 mesh.hosts, mesh.ranksPerHost));
        ++compared;
      }
  EXPECT_GT(compared, 150u);
}

TEST(AlikeRanks, SendMessagesAtTheSameMoment) {
  const Result<CostModel> model = findMachine("h200-4");
  ASSERT_TRUE(model.isOk());
  for (const char *text : {kGather, kScatter, kAllReduce})
    for (const char *schedule : {"pairwise", "ring", "collective", "bulk"}) {
      const Compiling made(text, 6, schedule, Transport::Messages);
      if (made.compiled)
        expectSame(*made.compiled, *model, {LaunchMode::Graph, {}},
                   fmt::format("{} {}", made.compiled->program->name(), schedule));
    }
}

/// If rows are divided unevenly, the last host differs from the others, so all ranks are simulated.
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

/// Returns the number of representative ranks: one rank, the ranks of one host, or all ranks.
size_t periodOf(const std::vector<Plan> &plans, int64_t perHost) {
  const auto outlineOfRank = [&](int64_t rank, Shift shift) -> Result<Outline> {
    return simulator::timeOutlineOf(plans[static_cast<size_t>(rank)], shift);
  };
  const auto ranks = static_cast<int64_t>(plans.size());
  return static_cast<size_t>(findAlike(ranks, perHost, Shift::Add, outlineOfRank)->period);
}

/// If the Plan of any one rank is changed in one of these ways, all ranks must be simulated.
TEST(AlikeRanks, AreToldFromOthers) {
  using Change = void (*)(Plan &);
  struct Case {
    const char *text, *schedule;
    int64_t ranks, perHost;
    std::vector<Change> changes;
  };
  const Case cases[] = {
      {kGather,
       "pairwise",
       4,
       0,
       {[](Plan &plan) { plan.endpoints[0].peer ^= 1; },
        [](Plan &plan) { plan.commands.back().stream ^= 1; },
        [](Plan &plan) { plan.commands.pop_back(); }, [](Plan &plan) { plan.matmuls[0].m += 1; },
        [](Plan &plan) { plan.endpoints[1].range.bytes += 2; },
        [](Plan &plan) { plan.flags += 1; }}},
      {kGather,
       "hierarchical",
       6,
       2,
       {[](Plan &plan) { plan.groups[0][0].peer ^= 1; },
        [](Plan &plan) { plan.groups[0][0].range.bytes += 2; },
        [](Plan &plan) { std::swap(plan.groups[0][0], plan.groups[0][1]); },
        [](Plan &plan) { plan.ranksPerHost = 3; }}},
      {kGather,
       "collective",
       6,
       2,
       {[](Plan &plan) { plan.collectives[0].kind = CollectiveKind::AllToAll; },
        [](Plan &plan) { plan.collectives[0].team.pop_back(); },
        [](Plan &plan) { plan.collectives[0].team = {0, 4, 2, 1, 3, 5}; },
        [](Plan &plan) { plan.collectives[0].root = 0; },
        [](Plan &plan) { plan.collectives[0].src.bytes += 2; }}},
      // The changed rank sends data other than the sum that its kernel has just stored.
      {kAllReduce, "bulk;reduction=two-shot;second-shot=put", 4, 0, {[](Plan &plan) {
         for (Command &command : plan.commands)
           if (gives(command, plan.sums.front())) {
             command.src = plan.sums.front().parts;
             command.src.bytes = command.dst.bytes;
           }
       }}}};
  for (const Case &each : cases) {
    const Compiling made(each.perHost == 0 ? each.text : onHosts(each.text, each.perHost),
                         each.ranks, each.schedule);
    ASSERT_TRUE(made.compiled.isOk());
    std::vector<Plan> plans = *makePlans(*made.compiled);
    const auto period = static_cast<size_t>(std::max<int64_t>(1, each.perHost));
    EXPECT_EQ(periodOf(plans, each.perHost), period) << each.schedule;
    for (Change change : each.changes)
      for (size_t rank : {size_t(0), plans.size() - 2}) {
        std::vector<Plan> changed = plans;
        change(changed[rank]);
        EXPECT_EQ(periodOf(changed, each.perHost), plans.size()) << each.schedule << rank;
      }
  }
}

/// The period is two, because every second rank differs. Within a period, every endpoint must have
/// exactly one partner.
TEST(AlikeRanks, HaveTheirPeriod) {
  const Compiling made(kGather, 6, "pairwise");
  ASSERT_TRUE(made.compiled.isOk());
  std::vector<Plan> plans = *makePlans(*made.compiled);
  for (size_t rank = 1; rank < plans.size(); rank += 2)
    plans[rank].matmuls[0].n += 8;
  EXPECT_EQ(periodOf(plans, 2), 2u);
  plans.resize(2);
  for (const Plan &plan : plans)
    for (const Endpoint &endpoint : plan.endpoints) {
      const EndpointKey partner = partnerKeyOf(plan, endpoint, 2);
      const Plan &other = plans[static_cast<size_t>(std::get<0>(partner))];
      EXPECT_EQ(llvm::count_if(other.endpoints,
                               [&](const Endpoint &each) { return keyOf(other, each) == partner; }),
                1);
    }
}

} // namespace
} // namespace braid
