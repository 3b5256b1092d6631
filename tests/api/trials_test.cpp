//===- tests/api/trials_test.cpp - candidates that are timed, and the choice among them -------===//
//
// Times are either made up or were measured for every candidate on four H200
// (tests/data/candidates_*).
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/trials.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns candidate `number`, which has `number` + 1 chunks.
JudgedCandidate predicted(size_t number, double us, const char *family = "pairwise") {
  JudgedCandidate judged;
  judged.candidate = *Candidate::parse(family);
  judged.predictedUs = us;
  judged.candidate.set(Knob::Chunks, static_cast<int64_t>(number) + 1);
  return judged;
}

size_t numberOf(const JudgedCandidate &judged) {
  return static_cast<size_t>(judged.candidate.chunks()) - 1;
}

std::vector<size_t> orderOf(std::vector<JudgedCandidate> candidates) {
  sortForTrials(candidates);
  std::vector<size_t> numbers;
  for (const JudgedCandidate &each : candidates)
    numbers.push_back(numberOf(each));
  return numbers;
}

TEST(SortForTrials, TakesOneOfEachFamilyFirst) {
  EXPECT_THAT(orderOf({predicted(0, 100), predicted(1, 101), predicted(2, 102),
                       predicted(3, 120, "pairwise;protocol=put"), predicted(4, 130, "ring")}),
              ElementsAre(0, 3, 4, 1, 2));
  EXPECT_THAT(orderOf({}), IsEmpty());
}

TEST(SortForTrials, PutsWhatIsTooFarOffLast) {
  EXPECT_THAT(orderOf({predicted(0, 100), predicted(1, 139), predicted(2, 141, "ring")}),
              ElementsAre(0, 1, 2));
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
  std::optional<int> trialRuns, turnRuns; ///< if empty, chosen as if power were unlimited
  std::vector<size_t> tried, turns;

  Result<double> trial(const JudgedCandidate &judged) override {
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
  /// Returns the number of runs in a trial: the warm-up runs and the runs in bursts.
  static int trialRunsOf(double us) {
    const int burst = fit(20e3, us, 2, 5);
    return 2 + burst * fit(20e3, burst * us, 1, 3);
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

/// Returns `count` candidates with equal predictions.
StageTrials alike(size_t count, double us = 10) {
  StageTrials choice;
  for (size_t number = 0; number < count; ++number)
    choice.candidates.push_back(predicted(number, us));
  return choice;
}

TEST(TimeCandidates, LetsTheBestTakeTurns) {
  Machine machine({100, 101, 102, 200});
  StageTrials choice = alike(4);
  ASSERT_TRUE(timeCandidates(choice, {.most = 4}, machine).isOk());
  EXPECT_THAT(machine.turns, ElementsAre(0, 1, 2, 2, 1, 0, 0, 1, 2)) << "not the slow one";
  EXPECT_EQ(choice.finalists, 3u);
  EXPECT_EQ(choice.rounds, 3u);
  EXPECT_EQ(numberOf(choice.candidates.front()), 0u);
  EXPECT_EQ(numberOf(choice.candidates.back()), 3u);
}

/// The first trial of the first candidate is slow by chance, but its times in the rounds decide.
TEST(TimeCandidates, LetsTheTurnsDecide) {
  struct Unlucky : Machine {
    using Machine::Machine;
    Result<double> trial(const JudgedCandidate &each) override {
      return numberOf(each) == 0 ? 110 : 105;
    }
  } machine({100, 105});
  StageTrials choice = alike(2);
  ASSERT_TRUE(timeCandidates(choice, {}, machine).isOk());
  EXPECT_EQ(numberOf(choice.candidates.front()), 0u);
  EXPECT_EQ(*choice.candidates.front().burstUs, 100);
}

/// Differences of up to 3 % between the times of bursts are not significant.
TEST(TimeCandidates, PrefersTheDefault) {
  for (double us : {102.0, 104.0}) {
    Machine machine({100, us, 101});
    StageTrials choice = alike(3);
    choice.candidates[1].isDefault = true;
    choice.candidates[1].predictedUs *= 1.3;
    ASSERT_TRUE(timeCandidates(choice, {.seconds = 1}, machine).isOk());
    EXPECT_THAT(machine.tried, ElementsAre(0, 1, 2)) << "not last, although predicted to be slow";
    EXPECT_EQ(numberOf(choice.best()), us < 103 ? 1u : 0u);
    EXPECT_EQ(choice.reason(), us < 103
                                   ? "the default, and within 3 % of the fastest of the 3 that "
                                     "were timed"
                                   : "the fastest of the 3 that were timed");
    EXPECT_EQ(choice.finalists, 3u);
  }
}

/// Without trials, predictions decide.
TEST(TimeCandidates, DoesNotPreferTheDefaultUntimed) {
  for (size_t most : {0, 1}) {
    Machine machine({100, 99});
    StageTrials choice = alike(2);
    choice.candidates[1].isDefault = true;
    ASSERT_TRUE(timeCandidates(choice, {.most = most}, machine).isOk());
    EXPECT_EQ(numberOf(choice.best()), 0u);
    EXPECT_EQ(choice.reason(), "predicted to be the fastest");
  }
}

/// A time from a trial is not comparable with the times from the rounds.
TEST(TimeCandidates, DoesNotPreferADefaultWithoutTurns) {
  struct Slowing : Machine {
    using Machine::Machine;
    Result<double> turn(const JudgedCandidate &each) override {
      return BRAID_TRY(Machine::turn(each)) + 20;
    }
  } machine({100, 101, 120});
  StageTrials choice = alike(3);
  choice.candidates[2].isDefault = true;
  machine.turnRuns = 2000; // 0.2 s
  ASSERT_TRUE(timeCandidates(choice, {.seconds = 0.5}, machine).isOk());
  EXPECT_EQ(choice.finalists, 2u);
  EXPECT_NE(numberOf(choice.best()), 2u);
}

TEST(TimeCandidates, KeepsItsBudget) {
  Machine quick(std::vector<double>(100, 60.0)), slow(std::vector<double>(100, 2e5));
  quick.prepareSeconds = 0.08;
  StageTrials choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, {.seconds = 2}, quick).isOk());
  EXPECT_EQ(quick.tried.size(), 18u) << "1.4 s";
  choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, {.seconds = 2}, slow).isOk());
  EXPECT_EQ(slow.tried.size(), 3u) << "though they take longer";
  Machine instant(std::vector<double>(100, 1.0));
  instant.prepareSeconds = 0;
  choice = alike(100);
  ASSERT_TRUE(timeCandidates(choice, {.seconds = 2}, instant).isOk());
  EXPECT_EQ(instant.tried.size(), TimingLimits().most);
}

/// Candidates whose predicted time is more than 1.4 times the best are not timed, unless the user
/// specifies how many to time.
TEST(TimeCandidates, LeavesOutWhatIsTooFarOff) {
  for (double seconds : {2.0, TimingLimits().seconds}) {
    Machine machine(std::vector<double>(5, 100));
    StageTrials choice = alike(3, 100);
    choice.candidates.push_back(predicted(3, 139));
    choice.candidates.push_back(predicted(4, 141));
    ASSERT_TRUE(timeCandidates(choice, {.seconds = seconds}, machine).isOk());
    EXPECT_EQ(machine.tried.size(), std::isfinite(seconds) ? 4u : 5u);
  }
}

/// The time limit may interrupt any phase. The choice then depends on the times measured so far.
TEST(TimeCandidates, EndsInTime) {
  for (double seconds : {0.0, 0.7, 2.0, 9.0, 60.0}) {
    Machine machine(std::vector<double>(100, 2e5));
    machine.prepareSeconds = 0;
    machine.trialRuns = 4;
    machine.turnRuns = 3;
    StageTrials choice = alike(100, 2e5);
    ASSERT_TRUE(timeCandidates(choice, {.seconds = seconds}, machine).isOk());
    EXPECT_LE(choice.seconds, seconds);
    EXPECT_EQ(choice.timed(), machine.tried.size());
    EXPECT_EQ(choice.candidates.size(), 100u);
    EXPECT_EQ(choice.timed() == 0, seconds < 1);
    EXPECT_EQ(choice.finalists >= 2, seconds >= 9);
    EXPECT_GE(choice.seconds, std::min(0.7 * seconds, 30.0) - 0.6) << "it uses what it has";
  }
}

/// If the time limit interrupts the first round, only candidates timed in that round can be chosen.
TEST(TimeCandidates, TakesWhoHadATurn) {
  struct Long : Machine {
    using Machine::Machine;
    Result<double> trial(const JudgedCandidate &each) override {
      return 1e6 + double(numberOf(each));
    }
  } machine(std::vector<double>(4, 1e6));
  machine.turnRuns = 1;
  StageTrials choice = alike(4); // there is time for two, estimated at three runs each
  ASSERT_TRUE(timeCandidates(choice, {.seconds = 4.5}, machine).isOk());
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
  StageTrials choice = alike(2);
  EXPECT_EQ(timeCandidates(choice, {}, machine).message(), "gone");
  machine.hasClock = false;
  EXPECT_EQ(timeCandidates(choice, {}, machine).message(), "no clock");
}

//===- Measured times -------------------------------------------------------------------------===//

struct Table {
  StageTrials choice; ///< candidate number i has i + 1 chunks
  std::vector<double> measuredUs;
};

/// Reads the file for `shape`. Below the title, each line is predicted_us,measured_us,candidate.
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
    EXPECT_TRUE(Candidate::parse(text)) << line;
    table.choice.candidates.push_back(
        predicted(table.measuredUs.size(), predictedUs, text.c_str()));
    table.measuredUs.push_back(measured);
  }
  llvm::stable_sort(table.choice.candidates,
                    [](const JudgedCandidate &a, const JudgedCandidate &b) {
                      return a.predictedUs < b.predictedUs;
                    });
  return table;
}

struct Measured {
  const char *shape;
  /// The maximum number of choices, out of 100, that may be slower than the best candidate by more
  /// than 3 % and 3 us.
  int mostOff;
};

class MeasuredTable : public testing::TestWithParam<Measured> {};

/// Simulates trials with the measured times plus noise. Preparing a candidate takes as long as it
/// did on the H200s.
TEST_P(MeasuredTable, HasItsBestFound) {
  const Table table = readTable(GetParam().shape);
  ASSERT_GT(table.measuredUs.size(), 300u);
  const double best = *std::min_element(table.measuredUs.begin(), table.measuredUs.end());
  int off = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine(table.measuredUs, seed);
    machine.noise = 0.04;
    StageTrials choice = table.choice;
    ASSERT_TRUE(timeCandidates(choice, {.seconds = 2}, machine).isOk());
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
