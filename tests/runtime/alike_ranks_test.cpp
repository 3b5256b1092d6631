//===- tests/runtime/alike_ranks_test.cpp - checking one rank for all equivalent ranks --------===//
//
// Checking one of several equivalent ranks must give the same verdict as checking each of them. If
// all ranks are damaged in the same way, they remain equivalent, so checking one rank must detect
// the damage. Damage on one rank may change only bytes and leave the order of commands equivalent.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/plan/spell_out.h"
#include "tests/support/alike.h"
#include "tests/support/checked.h"
#include "tests/support/damage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace braid::test {
namespace {

using Plans = std::vector<Plan>;

struct Subject : Planned {
  std::string name;
};

constexpr const char *kGather = R"(fusion @g(D = 3, L = 3) {
  mesh [0 .. D) of L
  %A = input f32[DIDx{D}, 4, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[Stream{D}, 4, 6]
  output %C
}
)";
constexpr const char *kScatter = R"(fusion @r(D = 3, L = 3) {
  mesh [0 .. D) of L
  %A = input f32[D, 4, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, 6]
  %C = matmul %A, %B : f32[DIDx{D}, 4, 6]
  output %C
}
)";
constexpr const char *kAll = R"(fusion @a(D = 3, L = 3) {
  mesh [0 .. D) of L
  %A = input f32[D, 4, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, 6]
  %C = matmul %A, %B : f32[D, 4, 6]
  output %C
}
)";

Subject subjectOf(const std::string &text, int64_t ranks, const std::string &schedule,
                  int64_t ranksPerHost = 0) {
  const int64_t ofHost = ranksPerHost == 0 ? ranks : ranksPerHost;
  return {planned(text, schedule, {.ranks = ranks, .parameters = {{"L", ofHost}}}),
          fmt::format("{}of {} ranks, '{}'", text, ranks, schedule)};
}

/// Expects equal reports from checking one rank and all ranks. Returns true if the Plans are safe.
bool expectSame(const Subject &subject, const Plans &plans, const CheckOptions &options = {}) {
  Result<CheckReport> report = checkBothWays(plans, subject.compiled.fusion, options);
  EXPECT_TRUE(report.isOk()) << subject.name << report.status().message();
  return report && report->isSafe();
}

std::vector<Subject> subjectsOn(int64_t ranks) {
  std::vector<Subject> all;
  for (const char *schedule :
       {"pairwise", "ring", "batched", "bulk", "sequential", "coalesced", "pairwise;chunks=2",
        "pairwise;placement=shared", "pairwise;protocol=put", "ring;protocol=put"})
    all.push_back(subjectOf(kGather, ranks, schedule));
  for (const char *schedule :
       {"pairwise", "ring", "bulk", "sequential", "pairwise;chunks=2", "pairwise;protocol=put",
        "ring;protocol=put", "ring;chunks=2", "pairwise;protocol=put;partials=peer",
        "ring;protocol=put;partials=peer"})
    all.push_back(subjectOf(kScatter, ranks, schedule));
  for (const char *schedule : {"pairwise", "pairwise;reduction=two-shot",
                               "pairwise;reduction=two-shot;protocol=put;partials=peer"})
    all.push_back(subjectOf(kAll, ranks, schedule));
  return all;
}

TEST(CheckerAlikeRanks, AreJudgedAsEachRank) {
  for (int64_t ranks : {2, 3, 4, 5, 8, 16})
    for (const Subject &subject : subjectsOn(ranks)) {
      EXPECT_EQ(periodOf(subject.plans), 1u) << subject.name;
      for (uint32_t runs : {1u, 3u})
        EXPECT_TRUE(expectSame(subject, subject.plans, {.runs = runs}));
      (void)expectSame(subject, subject.plans, {.queues = 2, .ordered = true});
    }
}

TEST(CheckerAlikeRanks, OnManySizes) {
  auto expectSafe = [](const char *text, int64_t ranks, const char *schedule) {
    const Subject subject = subjectOf(text, ranks, schedule);
    EXPECT_EQ(periodOf(subject.plans), 1u);
    EXPECT_TRUE(expectSame(subject, subject.plans));
  };
  for (int64_t ranks = 17; ranks <= 64; ++ranks)
    for (const char *schedule : {"pairwise", "ring"})
      for (const char *text : {kGather, kScatter})
        expectSafe(text, ranks, schedule);
  // If the number of ranks is a power of two, rank r exchanges blocks with rank r xor i.
  for (int64_t ranks : {32, 64, 128})
    expectSafe(kGather, ranks, "coalesced");
}

TEST(CheckerAlikeRanks, OfHosts) {
  for (const auto &[ranks, ofHost] : {std::pair<int64_t, int64_t>{4, 2},
                                      {6, 2},
                                      {6, 3},
                                      {8, 4},
                                      {16, 4},
                                      {34, 2},
                                      {60, 3},
                                      {64, 8}})
    for (const char *schedule : {"hierarchical", "pairwise", "ring", "hierarchical;protocol=put"}) {
      const Subject subject = subjectOf(kGather, ranks, schedule, ofHost);
      const bool isHierarchical = std::string_view(schedule).starts_with("hierarchical");
      // Two hosts with two ranks each consist of two equivalent pairs of ranks.
      const int64_t expected = ranks == 4 ? 1 : ofHost;
      EXPECT_EQ(isHierarchical ? periodOf(spellOut(subject.plans)) : expected, expected)
          << subject.name;
      EXPECT_TRUE(expectSame(subject, subject.plans));
    }
}

//===- Mistakes -------------------------------------------------------------------------------===//

/// Damages the k-th suitable command of a Plan. Returns false if the Plan has no such command.
using Damage = bool (*)(Plan &plan, size_t k);

bool drop(Plan &plan, size_t k) {
  if (k >= plan.commands.size())
    return false;
  eraseCommand(plan, k);
  return true;
}

bool swapWithNext(Plan &plan, size_t k) {
  if (k + 1 >= plan.commands.size())
    return false;
  std::swap(plan.commands[k], plan.commands[k + 1]);
  return true;
}

bool moveToOtherStream(Plan &plan, size_t k) {
  if (k >= plan.commands.size())
    return false;
  uint32_t &stream = plan.commands[k].stream;
  stream = (stream + 1) % static_cast<uint32_t>(plan.streams.size());
  return true;
}

bool endBufferHere(Plan &plan, size_t k) {
  if (k >= plan.commands.size() || plan.buffers.size() <= plan.inputs.size())
    return false;
  uint32_t last = static_cast<uint32_t>(plan.buffers.size()) - 1;
  plan.releases.push_back(
      {last, static_cast<uint32_t>(k), plan.commands[k].stream, plan.commands[k].origin});
  llvm::stable_sort(plan.releases, [](const PlanRelease &a, const PlanRelease &b) {
    return a.beforeCommand < b.beforeCommand;
  });
  return true;
}

/// Makes the k-th copy read or write another block, without changing its size or order.
bool moveBytes(Plan &plan, size_t k) {
  for (Command &command : plan.commands)
    if (command.kind == CommandKind::Copy && k-- == 0) {
      Range &range = command.dst.buffer == kPeerBuffer ? command.src : command.dst;
      const int64_t bytes = plan.buffers[range.buffer].bytes;
      range.offset = (range.offset + range.bytes) % bytes;
      return range.offset + range.bytes <= bytes;
    }
  return false;
}

constexpr Damage kDamages[] = {drop, swapWithNext, moveToOtherStream, endBufferHere, moveBytes};

TEST(CheckerAlikeRanks, MistakesOfAllRanksAreFound) {
  size_t rejected = 0, accepted = 0, alike = 0;
  for (int64_t ranks : {2, 3, 4})
    for (const Subject &subject : subjectsOn(ranks))
      for (Damage damage : kDamages)
        for (size_t k = 0;; ++k) {
          Plans plans = subject.plans;
          if (!llvm::all_of(plans, [&](Plan &plan) { return damage(plan, k); }))
            break;
          ++(expectSame(subject, plans) ? accepted : rejected);
          alike += periodOf(plans) == 1;
        }
  EXPECT_GT(rejected, 2000u);
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(alike, (rejected + accepted) / 2);
  std::printf("%zu rejected, %zu accepted, %zu alike\n", rejected, accepted, alike);
}

TEST(CheckerAlikeRanks, MistakesOfOneRankAreFound) {
  size_t rejected = 0, alike = 0;
  for (int64_t ranks : {3, 4})
    for (const Subject &subject : subjectsOn(ranks))
      for (Damage damage : kDamages)
        for (size_t k = 0;; ++k) {
          Plans plans = subject.plans;
          if (!damage(plans[k % plans.size()], k))
            break;
          const bool isRejected = !expectSame(subject, plans);
          rejected += isRejected;
          alike += isRejected && periodOf(plans) == 1;
        }
  EXPECT_GT(rejected, 1000u);
  EXPECT_GT(alike, 20u);
  std::printf("%zu rejected, %zu of them alike\n", rejected, alike);
}

TEST(CheckerAlikeRanks, OfHostsWithMistakesAreFound) {
  size_t rejected = 0;
  for (const auto &[ranks, ofHost] : {std::pair<int64_t, int64_t>{4, 2}, {6, 2}, {34, 2}}) {
    const Subject subject = subjectOf(kGather, ranks, "hierarchical", ofHost);
    for (Damage damage : kDamages)
      for (size_t k = 0; k<200; k += ranks> 6 ? 13 : 1) {
        Plans plans = subject.plans;
        if (!llvm::all_of(plans, [&](Plan &plan) { return damage(plan, k); }))
          break;
        rejected += !expectSame(subject, plans);
      }
  }
  EXPECT_GT(rejected, 50u);
  std::printf("%zu rejected\n", rejected);
}

//===- Cost -----------------------------------------------------------------------------------===//

/// The history contains the commands of a single rank for any number of ranks.
TEST(CheckerAlikeRanks, AreFollowedOnce) {
  for (const char *schedule : {"pairwise", "coalesced"}) {
    const Subject subject = subjectOf(kGather, 256, schedule);
    std::map<std::string, size_t> steps;
    CheckOptions options;
    options.progress = [&](const WorkProgress &now) { steps[now.step] = now.total; };
    Result<CheckReport> report = check(subject.plans, subject.compiled.fusion, options);
    EXPECT_TRUE(report && report->isSafe()) << schedule;
    const Plan &first = subject.plans.front();
    EXPECT_EQ(steps["building the history"], commandsToCheck(first, options.runs)) << schedule;
    EXPECT_EQ(steps["finding races and early signals"], commandsToCheck(first, options.runs))
        << schedule;
  }
}

} // namespace
} // namespace braid::test
