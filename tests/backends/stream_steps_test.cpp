//===- tests/backends/stream_steps_test.cpp - progress of GPU streams as seen by the watchdog -===//
//
// The test writes the progress words in place of a GPU.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/stream_steps.h"

#include "api/compile/plans.h"
#include "tests/support/configured.h"
#include "tests/support/examples.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// A program that runs in graphs: its Plan with `streams` streams, and its progress words.
struct InGraphs {
  InGraphs(uint32_t streams, uint32_t firstCommand,
           const std::vector<std::pair<uint32_t, CommandKind>> &commands)
      : plan(planOf(streams, firstCommand, commands)), words(streams), steps(plan) {
    steps.words = words.data();
  }
  /// Marks the command as executed by the GPU.
  void finish(uint32_t command) { words[plan.commands[command].stream].done = command + 1; }
  void finishRun() {
    for (uint32_t i = 0; i < plan.commands.size(); ++i)
      finish(i);
  }

  static Plan planOf(uint32_t streams, uint32_t firstCommand,
                     const std::vector<std::pair<uint32_t, CommandKind>> &commands) {
    Plan plan;
    plan.firstCommand = firstCommand;
    plan.streams.resize(streams);
    for (const auto &[stream, kind] : commands) {
      Command command{};
      command.kind = kind;
      command.stream = stream;
      plan.commands.push_back(command);
    }
    return plan;
  }

  const Plan plan;
  std::vector<StepWord> words;
  GraphSteps steps;
};

constexpr auto kSignal = CommandKind::Signal, kAwait = CommandKind::Await;

/// Bulk transfers between two ranks, all on one stream.
InGraphs bulk(uint32_t firstCommand) {
  return InGraphs(1, firstCommand, {{0, kSignal}, {0, kAwait}, {0, kSignal}, {0, kAwait}});
}

class StreamStepsTest : public ::testing::Test {
protected:
  uint32_t shown(uint32_t stream, const StepsUnderWay &underWay = {}) {
    const uint64_t step =
        nextStep(stream, underWay, issued_, word_, [this](uint64_t each) { return waits(each); });
    return step == kNoStep ? kNone : commandOf(step);
  }
  bool waits(uint64_t step) const {
    for (const InGraphs *each : {&p_, &q_})
      if (const uint32_t i = commandOf(step) - each->plan.firstCommand;
          i < each->plan.commands.size())
        return waitsForPeers(each->plan.commands[i].kind);
    return false;
  }
  void issueRun(uint32_t run, const Plan &plan) {
    for (uint32_t i = 0; i < plan.commands.size(); ++i)
      issued_.add(packStep(run, plan.firstCommand + i));
  }

  InGraphs p_ = bulk(0), q_ = bulk(100);
  IssuedSteps issued_;
  StepWord word_ = {};
};

// -- One program as graphs. --

TEST_F(StreamStepsTest, ARunThatIsOverIsNotWithin) {
  EXPECT_FALSE(p_.steps.isWithinRun()); // the first run has not begun
  p_.finish(0);
  EXPECT_TRUE(p_.steps.isWithinRun());
  p_.finishRun();
  EXPECT_FALSE(p_.steps.isWithinRun());
}

TEST_F(StreamStepsTest, TheFirstRunIsWithinWhereAStreamHasNotBegun) {
  InGraphs two(3, 0, {{0, kAwait}, {1, kAwait}}); // the third stream has no commands
  EXPECT_FALSE(two.steps.isWithinRun());
  two.finish(0);
  EXPECT_TRUE(two.steps.isWithinRun());
  two.finish(1);
  EXPECT_FALSE(two.steps.isWithinRun());
  EXPECT_EQ(two.steps.next(2), kNoStep);
  EXPECT_EQ(two.steps.next(3), kNoStep);
}

TEST_F(StreamStepsTest, AStreamThatIsThroughIsAtTheFirstStepOfTheNextRunIfThatWaits) {
  InGraphs two(2, 0, {{0, kAwait}, {0, kSignal}, {1, kSignal}, {1, kAwait}});
  two.finishRun();
  EXPECT_EQ(two.steps.next(0), packStep(1, 0));
  EXPECT_EQ(two.steps.next(1), kNoStep) << "what signals at first does not stand still there";
  two.finish(2);
  EXPECT_EQ(two.steps.next(1), packStep(1, 3));
}

TEST_F(StreamStepsTest, AStreamThatOnlySignalsIsNeverAtAnything) {
  InGraphs two(2, 0, {{0, kSignal}, {1, kSignal}, {1, kAwait}});
  EXPECT_EQ(two.steps.next(0), kNoStep);
  two.finish(0);
  EXPECT_EQ(two.steps.next(0), kNoStep);
}

TEST_F(StreamStepsTest, MovesAreToldOnce) {
  EXPECT_FALSE(p_.steps.hasMoved(0));
  p_.finish(0);
  EXPECT_EQ(p_.steps.last(0), packStep(1, 0));
  EXPECT_TRUE(p_.steps.hasMoved(0));
  EXPECT_FALSE(p_.steps.hasMoved(0));
  EXPECT_FALSE(p_.steps.hasMoved(1));
}

// -- Several programs, and eager runs. --

TEST_F(StreamStepsTest, WhatIsBehindAGraphThatStandsStillDoesNotHideIt) {
  p_.finishRun();
  q_.finishRun();
  p_.finish(0); // its second run waits at command 1
  issueRun(9, q_.plan);
  const StepsUnderWay underWay{{&p_.steps}, {&q_.steps}};
  EXPECT_EQ(shown(0, underWay), 1u);
}

TEST_F(StreamStepsTest, OfGraphsThatGoOnTheOneThatWaitsIsShown) {
  p_.finish(1);
  q_.finish(0);
  EXPECT_EQ(shown(0, {{&p_.steps, &q_.steps}, {}}), 101u);
  q_.finish(1);
  EXPECT_EQ(shown(0, {{&p_.steps, &q_.steps}, {}}), 2u);
}

TEST_F(StreamStepsTest, AnEagerRunBehindAReplayThatHasNotBegunDoesNotHideIt) {
  InGraphs late(1, 0, {{0, kAwait}, {0, kSignal}});
  late.finishRun();
  issueRun(1, q_.plan);
  const uint64_t step = nextStep(0, {{}, {&late.steps}}, issued_, word_, [](uint64_t each) {
    return each >> 32 == 1 && commandOf(each) == 0;
  });
  EXPECT_EQ(commandOf(step), 0u);
}

TEST_F(StreamStepsTest, EagerStepsAreShownInTheirOrder) {
  EXPECT_EQ(shown(0), kNone);
  issueRun(1, p_.plan);
  for (uint32_t done = 0; done < 4; ++done) {
    word_.done = done;
    EXPECT_EQ(shown(0), done);
    EXPECT_EQ(issued_.last(word_), done == 0 ? kNoStep : packStep(1, done - 1));
  }
  word_.done = 4;
  EXPECT_EQ(shown(0), kNone);
}

/// The record of the waiting step may have been overwritten. The report then names the wait of a
/// later run.
TEST_F(StreamStepsTest, ManyEagerRunsDoNotHideThatTheFirstOneWaits) {
  const auto runs = IssuedSteps::kKept; // runs of four steps each
  for (uint32_t run = 1; run <= runs; ++run)
    issueRun(run, p_.plan);
  word_.done = 1;
  EXPECT_EQ(shown(0), 1u);
  word_.done = 4 * runs - IssuedSteps::kKept; // the next step is the oldest one kept; it signals
  EXPECT_EQ(shown(0), 0u);
}

TEST_F(StreamStepsTest, NumbersWrapAround) {
  for (uint64_t i = 0; i < 3 * uint64_t(IssuedSteps::kKept); ++i)
    word_.done = issued_.add(packStep(static_cast<uint32_t>(i), 7));
  EXPECT_EQ(shown(0), kNone);
  EXPECT_EQ(issued_.last(word_), packStep(3 * IssuedSteps::kKept - 1, 7));
}

// -- Lowered programs. --

/// If a program started with a wait, each replay would need a separate report, which takes 4 us.
TEST(StreamSteps, WhatIsLoweredToPairsBeginsWithASignal) {
  size_t seen = 0;
  for (const char *example :
       {"ag_matmul.braid", "matmul_reduce_scatter.braid", "matmul_all_reduce.braid", "mlp.braid"})
    for (const Preset &preset : pairPresets())
      for (const char *protocol : {"get", "put"}) {
        CompileOptions options;
        options.ranks = 2;
        options.schedule = configured(preset.name.str() + ";protocol=" + protocol);
        std::unique_ptr<Source> source = parseSource(example, readExample(example));
        const Result<Compiled> compiled = compile(*source, options);
        if (!compiled)
          continue; // the operation does not support this schedule
        const Result<std::vector<Plan>> plans = makePlans(*compiled);
        ASSERT_TRUE(plans) << plans.status().message();
        for (const Plan &plan : *plans) {
          ++seen;
          EXPECT_TRUE(GraphSteps(plan).showsItsBeginning())
              << example << " " << preset.name.str() << " " << protocol << " rank " << plan.rank;
        }
      }
  EXPECT_GE(seen, 40u);
}

} // namespace
} // namespace braid::test
