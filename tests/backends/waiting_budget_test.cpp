//===- tests/backends/waiting_budget_test.cpp - limits for kernels that wait ------------------===//
//
// Needs no GPU.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/waiting_budget.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace braid {
namespace {

using Lane = WaitingBudget::Lane;

constexpr int kH200 = 132;
constexpr WaitingKernels kOneStream{.working = 1, .onlyWaiting = 0, .workers = 64};
constexpr WaitingKernels kTwoStreams{.working = 2, .onlyWaiting = 1, .workers = 64};

/// Arbitrary addresses that identify jobs and programs.
const std::array<char, 16> kNames = {};
const void *name(size_t number) { return &kNames[number]; }

TEST(WaitingBudget, OneProgramHasHalfOfTheGpu) {
  WaitingBudget budget(kH200);
  EXPECT_EQ(budget.reserve(name(0), Lane::Ordered, name(1), kOneStream), 65);
  EXPECT_EQ(budget.reserve(name(0), Lane::Ordered, name(2), kTwoStreams), 66);
  const LaunchLimits one = limitsFor(kOneStream, 65), two = limitsFor(kTwoStreams, 66);
  EXPECT_EQ(one.blocks.ofOne, 32);
  EXPECT_EQ(one.blocks.ofSeveral, 64);
  EXPECT_EQ(two.blocks.ofSeveral, 31);
  EXPECT_FALSE(one.waitsApart || two.waitsApart);
}

TEST(WaitingBudget, OthersHaveWhatIsLeftAndOneBlockAtLeast) {
  WaitingBudget budget(kH200);
  EXPECT_EQ(budget.reserve(name(0), Lane::Ordered, name(1), kOneStream), 65);
  const int second = budget.reserve(name(2), Lane::Ordered, name(3), kOneStream);
  EXPECT_EQ(second, 51);
  EXPECT_EQ(limitsFor(kOneStream, second).blocks.ofSeveral, 50);
  const int third = budget.reserve(name(4), Lane::Ordered, name(5), kTwoStreams);
  EXPECT_EQ(third, kTwoStreams.least());
  const LaunchLimits limits = limitsFor(kTwoStreams, third);
  EXPECT_TRUE(limits.waitsApart);
  EXPECT_EQ(limits.blocks.ofOne, 1);
  EXPECT_EQ(limits.blocks.ofSeveral, 1);
}

TEST(WaitingBudget, WhatIsReleasedIsThereForOthers) {
  WaitingBudget budget(kH200);
  (void)budget.reserve(name(0), Lane::Ordered, name(1), kOneStream);
  (void)budget.reserve(name(0), Lane::CallersGraphs, name(1), kOneStream);
  EXPECT_EQ(budget.reserve(name(2), Lane::Ordered, name(3), kTwoStreams), 3);
  budget.release(name(1));
  EXPECT_EQ(budget.reserve(name(2), Lane::Ordered, name(3), kTwoStreams), 66);
  EXPECT_EQ(budget.reserve(name(2), Lane::Ordered, name(3), kOneStream), 66) << "keeps the larger";
}

/// The runs of a program, and the programs of a lane, execute one at a time and can share blocks.
TEST(WaitingBudget, OnlyWhatMayRunAtTheSameTimeCounts) {
  WaitingBudget budget(kH200);
  for (size_t program = 1; program < 6; ++program)
    EXPECT_EQ(budget.reserve(name(0), Lane::Ordered, name(program), kOneStream), 65);
  WaitingBudget ofAGraph(kH200);
  EXPECT_EQ(ofAGraph.reserve(name(0), Lane::Ordered, name(1), kOneStream), 65);
  EXPECT_EQ(ofAGraph.reserve(name(0), Lane::CallersGraphs, name(1), kOneStream), 65);
  EXPECT_EQ(ofAGraph.reserve(name(0), Lane::Ordered, name(2), kOneStream), 51)
      << "beside the graph";
}

/// Programs are created and released at random. Those that can run concurrently (one per lane, none
/// twice) must leave room for the thread block clusters of GEMMs. Programs that received only the
/// minimum are ignored.
TEST(WaitingBudget, NothingThatRunsAtTheSameTimeFillsTheGpu) {
  std::mt19937 dice(1);
  const auto draw = [&](size_t below) { return static_cast<size_t>(dice() % below); };
  using Key = std::pair<size_t, Lane>; // a job and one of its lanes
  for (int round = 0; round < 300; ++round) {
    WaitingBudget budget(kH200);
    // The blocks of programs that received more than the minimum.
    std::map<Key, std::map<size_t, int>> shares;
    std::array<WaitingKernels, 8> kernelsOf;
    for (WaitingKernels &each : kernelsOf)
      each = {1 + static_cast<int>(draw(3)), static_cast<int>(draw(3)),
              1 + static_cast<int>(draw(64))};
    for (int step = 0; step < 40; ++step) {
      const size_t program = draw(8), job = program % 3;
      if (draw(4) == 0) {
        budget.release(name(8 + program));
        for (auto &[key, programs] : shares)
          programs.erase(program);
        continue;
      }
      const Lane lane = draw(2) ? Lane::Ordered : Lane::CallersGraphs;
      const int has = budget.reserve(name(job), lane, name(8 + program), kernelsOf[program]);
      ASSERT_GE(has, kernelsOf[program].least());
      if (has > kernelsOf[program].least())
        shares[{job, lane}][program] = has;
    }
    // For each job, finds the two programs, one for each lane, that together use the most blocks.
    int most = 0;
    for (size_t job = 0; job < 3; ++job) {
      int best = 0;
      auto ordered = shares[{job, Lane::Ordered}], inGraphs = shares[{job, Lane::CallersGraphs}];
      ordered[100] = inGraphs[101] = 0; // no program
      for (const auto &[one, first] : ordered)
        for (const auto &[other, second] : inGraphs)
          if (one != other)
            best = std::max(best, first + second);
      most += best;
    }
    ASSERT_LE(most, kH200 - kH200 / 8) << round;
  }
}

// -- Requirements of a program. --

Plan planOf(uint32_t streams, std::initializer_list<std::pair<uint32_t, CommandKind>> commands,
            int64_t bytes) {
  Plan plan;
  plan.streams.resize(streams);
  for (const auto &[stream, kind] : commands) {
    Command command;
    command.stream = stream;
    command.kind = kind;
    command.dst.bytes = bytes;
    plan.commands.push_back(command);
  }
  return plan;
}

TEST(WaitingKernels, OfATransferByKernels) {
  const Plan plan = planOf(3,
                           {{0, CommandKind::Matmul},
                            {1, CommandKind::Await},
                            {1, CommandKind::Copy},
                            {1, CommandKind::Signal},
                            {2, CommandKind::Await}},
                           5 * cuda::kTileBytes - 1);
  const WaitingKernels byKernel = waitingKernels(plan, {.copies = CopyBy::Kernel});
  EXPECT_EQ(byKernel.working, 1);
  EXPECT_EQ(byKernel.onlyWaiting, 1);
  EXPECT_EQ(byKernel.workers, 5);
  EXPECT_EQ(byKernel.wanted(), 7);
  const WaitingKernels byEngine = waitingKernels(plan, {.copies = CopyBy::Engine});
  EXPECT_EQ(byEngine.working, 0);
  EXPECT_EQ(byEngine.wanted(), 2);
  EXPECT_FALSE(limitsFor(byEngine, byEngine.least()).waitsApart);
}

TEST(WaitingKernels, OneCopyOfAnySizeHasThirtyTwoBlocksAndSeveralHaveMore) {
  constexpr int64_t kLarge = int64_t(1) << 30;
  const Plan one = planOf(1, {{0, CommandKind::Await}, {0, CommandKind::Copy}}, kLarge);
  const Plan two =
      planOf(1, {{0, CommandKind::Await}, {0, CommandKind::Copy}, {0, CommandKind::Copy}}, kLarge);
  EXPECT_EQ(waitingKernels(one, {.copies = CopyBy::Kernel}).workers, 32);
  EXPECT_EQ(waitingKernels(two, {.copies = CopyBy::Kernel}).workers, 64);
}

} // namespace
} // namespace braid
