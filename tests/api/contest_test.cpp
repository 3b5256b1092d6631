//===- tests/api/contest_test.cpp - which candidates are timed and which one wins -------------===//
//
// Times are invented or were measured for every candidate on four H200 (tests/data/candidates_*).
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace braid {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Lt;

/// Candidate `number`. The number is stored in its chunks.
JudgedCandidate predicted(size_t number, double us, size_t commands = 1, std::string family = {},
                          double worstCase = 1) {
  JudgedCandidate judged;
  judged.predictedUs = us;
  judged.commands = commands;
  judged.family = std::move(family);
  judged.worstCase = worstCase;
  judged.candidate.set(Knob::Chunks, static_cast<int64_t>(number) + 1);
  return judged;
}

size_t numberOf(const JudgedCandidate &judged) {
  return static_cast<size_t>(judged.candidate.chunks()) - 1;
}

std::vector<size_t> sorted(std::vector<JudgedCandidate> candidates) {
  sortByPrediction(candidates);
  std::vector<size_t> numbers;
  for (const JudgedCandidate &each : candidates)
    numbers.push_back(numberOf(each));
  return numbers;
}

template <class... Limits>
std::vector<size_t> triedOf(std::vector<JudgedCandidate> candidates, Limits... limits) {
  sortByPrediction(candidates);
  std::vector<size_t> numbers;
  for (const JudgedCandidate *each : trialOrder(candidates, limits...))
    numbers.push_back(numberOf(*each));
  return numbers;
}

TEST(SortByPrediction, PutsTheSimplestOfEqualsFirst) {
  EXPECT_THAT(sorted({predicted(0, 104, 30), predicted(1, 100, 90), predicted(2, 102, 60),
                      predicted(3, 106, 1), predicted(4, 150, 1)}),
              ElementsAre(0, 2, 1, 3, 4));
  EXPECT_THAT(sorted({predicted(0, 101, 30), predicted(1, 100, 30)}), ElementsAre(1, 0))
      << "as simple";
  EXPECT_THAT(sorted({}), IsEmpty());
}

TEST(SortByPrediction, CountsWhatTheyMayTake) {
  EXPECT_THAT(sorted({predicted(0, 100, 1, {}, 1.2), predicted(1, 110), predicted(2, 130)}),
              ElementsAre(1, 0, 2));
}

TEST(TrialOrder, LeavesOutWhatIsTooFarOff) {
  EXPECT_THAT(triedOf({predicted(0, 139), predicted(1, 100), predicted(2, 141)}),
              ElementsAre(1, 0));
  EXPECT_THAT(triedOf({}), IsEmpty());
  EXPECT_THAT(triedOf({predicted(0, 500), predicted(1, 100), predicted(2, 400)}, 0.4, 2),
              ElementsAre(1, 2))
      << "all but the two best";
}

TEST(TrialOrder, TakesOneOfEachFamilyFirst) {
  EXPECT_THAT(
      triedOf({predicted(0, 100, 1, "a"), predicted(1, 100.1, 2, "a"), predicted(2, 100.2, 3, "a"),
               predicted(3, 120, 1, "b"), predicted(4, 130, 1, "c")}),
      ElementsAre(0, 3, 4, 1, 2));
}

//===- Timing ---------------------------------------------------------------------------------===//

/// A simulated machine on which a run of each candidate takes `trueUs` plus reproducible noise. Its
/// clock advances only while a candidate is timed.
class Machine : public CandidateTimer {
public:
  explicit Machine(std::vector<double> trueUs, uint64_t seed = 1)
      : trueUs_(std::move(trueUs)), state_(seed) {}

  double noise = 0;                       ///< largest relative error
  double prepareSeconds = 0.04;           ///< time to prepare a candidate
  std::optional<int> trialRuns, turnRuns; ///< if empty, as many as if power were no limit
  std::vector<size_t> tried, turns;

  Result<double> trial(JudgedCandidate &judged) override {
    const size_t candidate = numberOf(judged);
    tried.push_back(candidate);
    seconds_ += prepareSeconds;
    return run(candidate, trialRuns.value_or(trialRunsOf(trueUs_[candidate])));
  }
  Result<double> turn(const JudgedCandidate &judged) override {
    const size_t candidate = numberOf(judged);
    turns.push_back(candidate);
    return run(candidate, turnRuns.value_or(1 + fit(8e3, trueUs_[candidate], 2, 40)));
  }
  Result<double> seconds() override { return seconds_; }

private:
  static int fit(double budgetUs, double us, int least, int most) {
    return std::clamp(static_cast<int>(budgetUs / us), least, most);
  }
  /// Warm-up runs, single runs and bursts.
  static int trialRunsOf(double us) {
    const int burst = fit(20e3, us, 2, 5);
    return 2 + fit(10e3, us, 1, 3) + burst * fit(20e3, burst * us, 1, 3);
  }
  double run(size_t candidate, int runs) {
    seconds_ += 1e-6 * runs * trueUs_[candidate];
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const double random = double(state_ >> 40) / double(1 << 24) * 2 - 1;
    return trueUs_[candidate] * (1 + noise * random);
  }

  std::vector<double> trueUs_;
  uint64_t state_;
  double seconds_ = 0;
};

/// `count` candidates with equal predictions.
ScheduleChoice alike(size_t count, double us = 10) {
  ScheduleChoice choice;
  for (size_t number = 0; number < count; ++number)
    choice.candidates.push_back(predicted(number, us));
  return choice;
}

TEST(TimeCandidates, LetsTheBestTakeTurns) {
  Machine machine({100, 101, 102, 200});
  ScheduleChoice choice = alike(4);
  ASSERT_TRUE(timeCandidates(choice, {.leastRounds = 2, .mostRounds = 2}, machine).isOk());
  EXPECT_THAT(machine.turns, ElementsAre(0, 1, 2, 2, 1, 0)) << "not the slow one";
  EXPECT_EQ(choice.finalists, 3u);
  EXPECT_EQ(choice.rounds, 2u);
  EXPECT_EQ(numberOf(choice.candidates.front()), 0u);
  EXPECT_EQ(numberOf(choice.candidates.back()), 3u);
}

TEST(TimeCandidates, TakesWhatIsSteady) {
  for (double steady : {115.0, 125.0}) {
    Machine machine({100, steady, 200});
    ScheduleChoice choice = alike(3);
    choice.candidates[0].worstCase = 1.2;
    ASSERT_TRUE(timeCandidates(choice, {}, machine).isOk());
    EXPECT_EQ(numberOf(choice.candidates.front()), steady < 120 ? 1u : 0u);
    EXPECT_EQ(choice.finalists, 2u);
    EXPECT_EQ(*choice.candidates.front().burstUs, steady < 120 ? steady : 100) << "as measured";
  }
}

/// The first trial of candidate 0 is disturbed and looks slow.
TEST(TimeCandidates, LetsTheTurnsDecide) {
  struct Unlucky : Machine {
    using Machine::Machine;
    Result<double> trial(JudgedCandidate &each) override { return numberOf(each) == 0 ? 110 : 105; }
  } machine({100, 105});
  ScheduleChoice choice = alike(2);
  ASSERT_TRUE(timeCandidates(choice, {}, machine).isOk());
  EXPECT_EQ(numberOf(choice.candidates.front()), 0u);
  EXPECT_EQ(*choice.candidates.front().burstUs, 100);
}

TEST(TimeCandidates, KeepsItsBudget) {
  Machine quick(std::vector<double>(100, 60.0)), slow(std::vector<double>(100, 2e5));
  quick.prepareSeconds = 0.08;
  TimingLimits limits;
  ScheduleChoice choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, limits, quick).isOk());
  EXPECT_EQ(quick.tried.size(), 25u) << "2 s";
  choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, limits, slow).isOk());
  EXPECT_EQ(slow.tried.size(), limits.least) << "however long it takes";
  EXPECT_EQ(slow.turns.size(), limits.leastRounds * 3);
  Machine instant(std::vector<double>(100, 1.0));
  instant.prepareSeconds = 0;
  choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, limits, instant).isOk());
  EXPECT_EQ(instant.tried.size(), limits.most);
}

/// The time limit interrupts any phase; candidates that were timed until then count.
TEST(TimeCandidates, EndsInTime) {
  for (double seconds : {0.0, 0.8, 4.0, 9.0, 60.0}) {
    Machine machine(std::vector<double>(100, 2e5));
    machine.prepareSeconds = 0;
    machine.trialRuns = 5;
    machine.turnRuns = 3;
    ScheduleChoice choice = alike(100, 2e5);
    ASSERT_TRUE(timeCandidates(choice, TimingLimits::within(seconds), machine).isOk());
    EXPECT_LE(choice.seconds, seconds);
    EXPECT_EQ(choice.timed(), machine.tried.size());
    EXPECT_EQ(choice.candidates.size(), 100u);
    EXPECT_EQ(choice.timed() == 0, seconds < 1);
    EXPECT_EQ(choice.finalists >= 2, seconds >= 9);
    EXPECT_GE(choice.seconds, std::min(0.7 * seconds, 30.0) - 0.6) << "it uses what it has";
  }
}

/// If the first of the final rounds is cut short, only candidates that had a turn can win.
TEST(TimeCandidates, TakesWhoHadATurn) {
  struct Long : Machine {
    using Machine::Machine;
    Result<double> trial(JudgedCandidate &each) override { return 1e6 + double(numberOf(each)); }
  } machine(std::vector<double>(4, 1e6));
  machine.turnRuns = 1;
  TimingLimits limits;
  // Enough for two turns, if a turn takes as long as three runs.
  limits.seconds = 4.5;
  ScheduleChoice choice = alike(4);
  ASSERT_TRUE(timeCandidates(choice, limits, machine).isOk());
  EXPECT_THAT(machine.turns, ElementsAre(0, 1));
  EXPECT_EQ(choice.finalists, 2u);
  EXPECT_EQ(choice.timed(), 4u);
}

TEST(TimeCandidates, FailsAsTimingDoes) {
  struct Failing : Machine {
    using Machine::Machine;
    bool hasClock = true;
    Result<double> turn(const JudgedCandidate &) override {
      return Status(StatusCode::PeerFailed, "gone");
    }
    Result<double> seconds() override {
      return hasClock ? Machine::seconds() : Status(StatusCode::PeerFailed, "no clock");
    }
  } machine({1, 1});
  ScheduleChoice choice = alike(2);
  EXPECT_EQ(timeCandidates(choice, {}, machine).message(), "gone");
  machine.hasClock = false;
  EXPECT_EQ(timeCandidates(choice, {}, machine).message(), "no clock");
}

//===- Measured times -------------------------------------------------------------------------===//

struct Table {
  ScheduleChoice choice; ///< each candidate's number is stored in its chunks
  std::vector<double> measuredUs;
};

/// The number of commands grows with the number of GEMMs; the rest hardly differs.
size_t gemmsOf(const Candidate &candidate) {
  return static_cast<size_t>(4 * candidate.chunks() * candidate.tailSplit());
}

/// Reads one line for each candidate, after the title: predicted_us,measured_us,candidate.
Table readTable(const std::string &shape) {
  Table table;
  std::ifstream in("tests/data/candidates_" + shape + ".csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    double predictedUs = 0, measured = 0;
    char comma = 0;
    std::string text;
    if (!(words >> predictedUs >> comma >> measured >> comma >> text))
      continue;
    Result<Candidate> candidate = Candidate::parse(text);
    EXPECT_TRUE(candidate) << line;
    table.choice.candidates.push_back(
        predicted(table.measuredUs.size(), predictedUs, gemmsOf(*candidate), familyOf(*candidate)));
    table.measuredUs.push_back(measured);
  }
  sortByPrediction(table.choice.candidates);
  return table;
}

struct Measured {
  const char *shape;
  /// Bound on choices, of 100, that are slower than the best by more than 3 % and 3 us.
  int mostOff;
};

class MeasuredTable : public testing::TestWithParam<Measured> {};

/// Measured times with noise; preparing takes as long as it did on the H200s.
TEST_P(MeasuredTable, HasItsBestFound) {
  const Table table = readTable(GetParam().shape);
  ASSERT_GT(table.measuredUs.size(), 300u);
  const double best = *std::min_element(table.measuredUs.begin(), table.measuredUs.end());
  int off = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine(table.measuredUs, seed);
    machine.noise = 0.04;
    ScheduleChoice choice = table.choice;
    ASSERT_TRUE(timeCandidates(choice, TimingLimits::within(2), machine).isOk());
    const double found = table.measuredUs[numberOf(choice.candidates.front())];
    off += found > best + std::max(3.0, 0.03 * best);
    EXPECT_LE(found, best + std::max(3.0, 0.05 * best)) << machine.tried.size() << " were timed";
    EXPECT_LE(choice.seconds, 2.1);
  }
  EXPECT_LE(off, GetParam().mostOff);
}

INSTANTIATE_TEST_SUITE_P(OfFourH200, MeasuredTable,
                         testing::Values(Measured{"1024x1024x1024", 0},
                                         Measured{"2048x2048x2048", 0},
                                         Measured{"8192x7168x8192", 12},
                                         Measured{"16384x1024x16384", 5}),
                         [](const auto &test) { return "Table" + std::to_string(test.index); });

} // namespace
} // namespace braid
