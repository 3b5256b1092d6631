//===- tests/property/hierarchical_test.cpp - counts transfers between hosts ------------------===//
//
// Compiles programs for several meshes of hosts. Every program must be safe with one queue and
// compute the right result. The tests also count how often the Plans transfer each block between
// hosts.
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/candidates.h"
#include "lowering/stages/fusion_stages.h"
#include "runtime/plan/specialize.h"
#include "tests/support/check_text.h"
#include "tests/support/configured.h"
#include "tests/support/random_fusion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace braid::test {
namespace {

struct Mesh {
  int64_t hosts, ranksPerHost;
  int64_t ranks() const { return hosts * ranksPerHost; }
};
constexpr Mesh kMeshes[] = {{2, 2}, {2, 3}, {3, 2}, {4, 4}};

std::string fusionOf(const Mesh &mesh, const std::string &body) {
  return fmt::format("fusion @f(D = {}, L = {}, M = {}) {{\n  mesh [0 .. D) of L\n{}}}\n",
                     mesh.ranks(), mesh.ranksPerHost, mesh.ranks() * 5 - 2, body);
}

const char *const kGather = "  %A = input f32[DIDx{D}, 5, 3]\n"
                            "  %B = input f32[3, 4]\n"
                            "  %C = matmul %A, %B : f32[Stream{D}, 5, 4]\n"
                            "  output %C\n";
const char *const kUnevenGather = "  %A = input f32[DIDx{D}, ceil(M, D), 3]\n"
                                  "  %B = input f32[3, 4]\n"
                                  "  %C = matmul %A, %B : f32[Stream{D}, ceil(M, D), 4]\n"
                                  "  output %C\n";
const char *const kWholeGather = "  %A = input bf16[DIDx{D}, 5, 3]\n"
                                 "  %B = input bf16[3, 4]\n"
                                 "  %C = matmul %A, %B : bf16[D, 5, 4]\n"
                                 "  output %C\n";
const char *const kReduceScatter = "  %A = input bf16[D, 5, DIDx{D}, 3]\n"
                                   "  %w = input bf16[4, DIDx{D}, 3]\n"
                                   "  %b = input bf16[4]\n"
                                   "  %C = linear %A, %w, %b partial f32 : bf16[DIDx{D}, 5, 4]\n"
                                   "  %G = gelu %C : bf16[DIDx{D}, 5, 4]\n"
                                   "  output %G\n";
const char *const kUnevenReduceScatter = "  %A = input f32[D, ceil(M, D), DIDx{D}, 3]\n"
                                         "  %B = input f32[DIDx{D}, 3, 4]\n"
                                         "  %C = matmul %A, %B : f32[DIDx{D}, ceil(M, D), 4]\n"
                                         "  output %C\n";
const char *const kAllReduce = "  %A = input f16[M, DIDx{D}, 3]\n"
                               "  %B = input f16[DIDx{D}, 3, 4]\n"
                               "  %C = matmul %A, %B : f16[M, 4]\n"
                               "  output %C\n";

enum class Kind { Gather, WholeGather, ReduceScatter, AllReduce };

std::vector<std::string> schedulesOf(Kind kind) {
  const bool isWhole = kind == Kind::WholeGather;
  const std::string extra = kind == Kind::AllReduce ? ";reduction=two-shot" : "";
  std::vector<std::string> all;
  for (const char *protocol : {"get", "put"})
    for (int64_t streams : {1, 2, 3, 4, 7, 12}) {
      auto add = [&](const char *more) {
        all.push_back(
            fmt::format("hierarchical;protocol={};streams={}{}{}", protocol, streams, extra, more));
      };
      add("");
      for (const char *more : {";placement=shared", ";chunks=2;tail-split=2",
                               ";placement=shared;chunks=2;tail-split=2"})
        if (!isWhole)
          add(more);
    }
  // GEMMs can store results in the memory of ranks on the same host.
  if (kind == Kind::ReduceScatter || kind == Kind::AllReduce)
    for (const char *cut : {"", ";chunks=2"})
      all.push_back("hierarchical;protocol=put;partials=peer" + extra + cut);
  return all;
}

void expectAllSafe(const char *body, Kind kind) {
  for (const Mesh &mesh : kMeshes)
    for (const std::string &schedule : schedulesOf(kind)) {
      const Status status = checkText(fusionOf(mesh, body), {.schedule = configured(schedule)});
      ASSERT_TRUE(status.isOk()) << schedule << "\n" << status.message();
    }
}

TEST(Hosts, GathersAreSafe) { expectAllSafe(kGather, Kind::Gather); }
TEST(Hosts, UnevenGathersAreSafe) { expectAllSafe(kUnevenGather, Kind::Gather); }
TEST(Hosts, WholeGathersAreSafe) { expectAllSafe(kWholeGather, Kind::WholeGather); }
TEST(Hosts, ReduceScattersAreSafe) { expectAllSafe(kReduceScatter, Kind::ReduceScatter); }
TEST(Hosts, UnevenReduceScattersAreSafe) {
  expectAllSafe(kUnevenReduceScatter, Kind::ReduceScatter);
}
TEST(Hosts, AllReducesAreSafe) { expectAllSafe(kAllReduce, Kind::AllReduce); }

/// Checks the candidates that `auto` tries, flat and hierarchical, except those that lowering
/// rejects.
void expectCandidatesSafe(const Mesh &mesh, const std::string &text) {
  std::unique_ptr<Source> source = parseSource("hosts.braid", text);
  const std::vector<FusionStage> stages = stagesOf(*source->module.fusions.front(), source->diags);
  ASSERT_EQ(stages.size(), 1u) << source->diags.str();
  size_t hierarchical = 0;
  for (const Candidate &candidate : candidatesFor({}, stages.front())) {
    const Status status = checkText(text, {.schedule = {candidate}});
    if (status.code() == StatusCode::BadInput)
      continue;
    hierarchical += candidate.order() == schedule::Order::Hierarchical;
    ASSERT_TRUE(status.isOk()) << candidate.str() << "\n" << status.message();
  }
  EXPECT_EQ(hierarchical > 0, mesh.hosts > 1 && mesh.ranksPerHost > 1);
}

TEST(Hosts, CandidatesOfAutoAreSafe) {
  for (const Mesh &mesh : {Mesh{2, 2}, Mesh{2, 3}, Mesh{4, 1}, Mesh{1, 4}})
    for (const char *body : {kGather, kReduceScatter, kAllReduce})
      expectCandidatesSafe(mesh, fusionOf(mesh, body));
}

TEST(Hosts, RandomCasesAreExact) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Status status = runCase(
        randomCase(seed, {.sums = seed % 2 == 0, .functions = seed % 3 == 0, .hosts = true}));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

//===----------------------------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------------------------===//

/// The bytes that each host receives from other hosts, by host and by offset in the destination.
using Crossings = std::map<std::pair<int64_t, int64_t>, int64_t>;

Crossings countCrossings(const std::string &text, const std::string &schedule, const Mesh &mesh) {
  std::unique_ptr<Source> source = parseSource("hosts.braid", text);
  Result<Compiled> compiled = compile(*source, {.schedule = configured(schedule)});
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Crossings crossings;
  for (int64_t rank = 0; compiled && rank < mesh.ranks(); ++rank) {
    Result<Plan> plan = specialize(*compiled->program, rank, source->diags);
    EXPECT_TRUE(plan.isOk()) << source->diags.str();
    auto count = [&](Direction direction, int64_t peer, const Range &range) {
      const int64_t host = rank / mesh.ranksPerHost;
      if (direction == Direction::Receive && peer / mesh.ranksPerHost != host)
        crossings[{host, range.offset}] += range.bytes;
    };
    for (const Endpoint &endpoint : plan->endpoints)
      count(endpoint.direction, endpoint.peer, endpoint.range);
    for (const PlanGroup &group : plan->groups)
      for (const PlanMessage &message : group)
        count(message.direction, message.peer, message.range);
  }
  return crossings;
}

/// Every rank stores block i at offset i.
TEST(Hosts, EachBlockOfAGatherCrossesOnceForEachOtherHost) {
  constexpr int64_t kBlock = 5 * 3 * 4;
  for (const Mesh &mesh : kMeshes)
    for (const auto &[schedule, times] :
         {std::pair<const char *, int64_t>{"hierarchical", 1}, {"pairwise", mesh.ranksPerHost}}) {
      const Crossings crossings = countCrossings(fusionOf(mesh, kGather), schedule, mesh);
      EXPECT_EQ(int64_t(crossings.size()), mesh.hosts * (mesh.ranks() - mesh.ranksPerHost));
      for (const auto &[where, bytes] : crossings) {
        EXPECT_EQ(bytes, times * kBlock) << schedule << " to host " << where.first;
        EXPECT_NE(where.second / kBlock / mesh.ranksPerHost, where.first);
      }
    }
}

/// For each rank, each other host sends one part, rather than one part for each of its ranks.
TEST(Hosts, EachHostSendsOneSumToARank) {
  constexpr int64_t kPart = 5 * 4 * 4;
  for (const Mesh &mesh : kMeshes)
    for (const auto &[schedule, times] :
         {std::pair<const char *, int64_t>{"hierarchical", 1}, {"pairwise", mesh.ranksPerHost}}) {
      int64_t all = 0;
      for (const auto &[where, bytes] :
           countCrossings(fusionOf(mesh, kReduceScatter), schedule, mesh))
        all += bytes;
      EXPECT_EQ(all, mesh.ranks() * (mesh.hosts - 1) * times * kPart) << schedule;
    }
}

} // namespace
} // namespace braid::test
