//===- tests/api/contest_test.cpp - which candidates are timed, and which of them wins --------===//
//
// Times are made up, or those that every candidate took on four H200 (tests/data/candidates_*).
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/candidate.h"
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

TEST(OrderByPrediction, PutsTheSimplestOfEqualsFirst) {
  EXPECT_THAT(orderByPrediction({{104, 30}, {100, 90}, {102, 60}, {106, 1}, {150, 1}}),
              ElementsAre(0, 2, 1, 3, 4));
  EXPECT_THAT(orderByPrediction({{101, 30}, {100, 30}}), ElementsAre(1, 0)) << "as simple";
  EXPECT_THAT(orderByPrediction({}), IsEmpty());
}

TEST(TrialOrder, LeavesOutWhatIsTooFarOff) {
  EXPECT_THAT(trialOrder({{139, 1}, {100, 1}, {141, 1}}), ElementsAre(1, 0));
  EXPECT_THAT(trialOrder({}), IsEmpty());
  EXPECT_THAT(trialOrder({{500, 1}, {100, 1}, {400, 1}}, 0.4, 2), ElementsAre(1, 2))
      << "all but the two best";
}

TEST(TrialOrder, TakesOneOfEachFamilyFirst) {
  const std::vector<PredictedCandidate> all = {
      {100, 1, "a"}, {100.1, 2, "a"}, {100.2, 3, "a"}, {120, 1, "b"}, {130, 1, "c"}};
  EXPECT_THAT(trialOrder(all), ElementsAre(0, 3, 4, 1, 2));
}

TEST(OrderByPrediction, CountsWhatTheyMayTake) {
  EXPECT_THAT(orderByPrediction({PredictedCandidate{100, 1, {}, 1.2}, PredictedCandidate{110, 1},
                                 PredictedCandidate{130, 1}}),
              ElementsAre(1, 0, 2));
}

//===- Timing ---------------------------------------------------------------------------------===//

/// A machine that takes `trueUs` for a run of each, off by noise that is the same every time, and
/// whose clock stands still while nothing is timed.
class Machine {
public:
  explicit Machine(std::vector<double> trueUs, uint64_t seed = 1)
      : trueUs_(std::move(trueUs)), state_(seed) {}

  double noise = 0;                       ///< largest relative error of a time
  double prepareSeconds = 0.04;           ///< for a candidate
  std::optional<int> trialRuns, turnRuns; ///< empty: as many as where power is no limit
  double seconds = 0;
  std::vector<size_t> tried, turns;

  TimingActions actions() {
    return {[this](size_t candidate) -> Result<double> {
              tried.push_back(candidate);
              seconds += prepareSeconds;
              return run(candidate, trialRuns.value_or(trialRunsOf(trueUs_[candidate])));
            },
            [this](size_t candidate) -> Result<double> {
              turns.push_back(candidate);
              return run(candidate, turnRuns.value_or(1 + fit(8e3, trueUs_[candidate], 2, 40)));
            },
            [this]() -> Result<double> { return seconds; }};
  }

private:
  static int fit(double budgetUs, double us, int least, int most) {
    return std::clamp(static_cast<int>(budgetUs / us), least, most);
  }
  /// To warm up, alone, and in bursts.
  static int trialRunsOf(double us) {
    const int burst = fit(20e3, us, 2, 5);
    return 2 + fit(10e3, us, 1, 3) + burst * fit(20e3, burst * us, 1, 3);
  }
  double run(size_t candidate, int runs) {
    seconds += 1e-6 * runs * trueUs_[candidate];
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const double random = double(state_ >> 40) / double(1 << 24) * 2 - 1;
    return trueUs_[candidate] * (1 + noise * random);
  }

  std::vector<double> trueUs_;
  uint64_t state_;
};

TEST(TimeCandidates, LetsTheBestTakeTurns) {
  Machine machine({100, 101, 102, 200});
  Result<CandidateTimes> times = timeCandidates(
      {{10, 1}, {10, 1}, {10, 1}, {10, 1}}, {.leastRounds = 2, .mostRounds = 2}, machine.actions());
  ASSERT_TRUE(times);
  EXPECT_THAT(machine.turns, ElementsAre(0, 1, 2, 2, 1, 0)) << "not the slow one";
  EXPECT_EQ(times->finalists, 3u);
  EXPECT_EQ(times->rounds, 2u);
  EXPECT_EQ(times->times.front().candidate, 0u);
  EXPECT_EQ(times->times.back().candidate, 3u);
}

TEST(TimeCandidates, TakesWhatIsSteady) {
  const std::vector<PredictedCandidate> all = {{10, 1, {}, 1.2}, {10, 1}, {10, 1}};
  for (double steady : {115.0, 125.0}) {
    Machine machine({100, steady, 200});
    Result<CandidateTimes> times = timeCandidates(all, {}, machine.actions());
    EXPECT_EQ(times->times.front().candidate, steady < 120 ? 1u : 0u);
    EXPECT_EQ(times->finalists, 2u);
    EXPECT_EQ(times->times.front().us, steady < 120 ? steady : 100) << "as measured";
  }
}

/// The first trial of the first candidate came at a bad moment.
TEST(TimeCandidates, LetsTheTurnsDecide) {
  TimingActions actions;
  actions.trial = [](size_t candidate) -> Result<double> { return candidate == 0 ? 110 : 105; };
  actions.turn = [](size_t candidate) -> Result<double> { return candidate == 0 ? 100 : 105; };
  actions.seconds = []() -> Result<double> { return 0; };
  Result<CandidateTimes> times = timeCandidates({{10, 1}, {10, 1}}, {}, actions);
  EXPECT_EQ(times->times.front().candidate, 0u);
  EXPECT_EQ(times->times.front().us, 100);
}

TEST(TimeCandidates, KeepsItsBudget) {
  std::vector<PredictedCandidate> all(100, PredictedCandidate{10, 1});
  Machine quick(std::vector<double>(100, 60.0)), slow(std::vector<double>(100, 2e5));
  quick.prepareSeconds = 0.08;
  TimingLimits limits;
  ASSERT_TRUE(timeCandidates(all, limits, quick.actions()));
  EXPECT_EQ(quick.tried.size(), 25u) << "2 s";
  ASSERT_TRUE(timeCandidates(all, limits, slow.actions()));
  EXPECT_EQ(slow.tried.size(), limits.least) << "however long it takes";
  EXPECT_EQ(slow.turns.size(), limits.leastRounds * 3);
  Machine instant(std::vector<double>(100, 1.0));
  instant.prepareSeconds = 0;
  ASSERT_TRUE(timeCandidates(all, limits, instant.actions()));
  EXPECT_EQ(instant.tried.size(), limits.most);
}

/// In the middle of whatever it is at; what has been timed by then counts.
TEST(TimeCandidates, EndsInTime) {
  std::vector<PredictedCandidate> all(100, PredictedCandidate{2e5, 1});
  for (double seconds : {0.0, 0.8, 4.0, 9.0, 60.0}) {
    Machine machine(std::vector<double>(100, 2e5));
    machine.prepareSeconds = 0;
    machine.trialRuns = 5;
    machine.turnRuns = 3;
    Result<CandidateTimes> times =
        timeCandidates(all, TimingLimits::within(seconds), machine.actions());
    ASSERT_TRUE(times);
    EXPECT_LE(machine.seconds, seconds);
    EXPECT_EQ(times->times.size(), machine.tried.size());
    EXPECT_EQ(times->times.empty(), seconds < 1);
    EXPECT_EQ(times->finalists >= 2, seconds >= 9);
    EXPECT_GE(machine.seconds, std::min(0.7 * seconds, 30.0) - 0.6) << "it uses what it has";
  }
}

/// A first round that is cut short decides among those who had a turn.
TEST(TimeCandidates, TakesWhoHadATurn) {
  Machine machine({1e6, 1e6, 1e6, 1e6});
  machine.prepareSeconds = 0;
  machine.trialRuns = machine.turnRuns = 1;
  TimingActions actions = machine.actions();
  actions.trial = [](size_t candidate) -> Result<double> { return 1e6 + double(candidate); };
  TimingLimits limits;
  limits.seconds = 4.5; // two end in it, if each takes as long as three runs
  Result<CandidateTimes> times =
      timeCandidates(std::vector<PredictedCandidate>(4, {10, 1}), limits, actions);
  ASSERT_TRUE(times);
  EXPECT_THAT(machine.turns, ElementsAre(0, 1));
  EXPECT_EQ(times->finalists, 2u);
  EXPECT_EQ(times->times.size(), 4u);
}

TEST(TimeCandidates, FailsAsTimingDoes) {
  Machine machine({1, 1});
  TimingActions actions = machine.actions();
  actions.turn = [](size_t) { return Status(StatusCode::PeerFailed, "gone"); };
  EXPECT_EQ(timeCandidates({{1, 1}, {1, 1}}, {}, actions).status().message(), "gone");
  actions.seconds = []() { return Status(StatusCode::PeerFailed, "no clock"); };
  EXPECT_EQ(timeCandidates({{1, 1}, {1, 1}}, {}, actions).status().message(), "no clock");
}

//===- What was measured ----------------------------------------------------------------------===//

struct Table {
  std::vector<PredictedCandidate> predictedCandidates;
  std::vector<double> measuredUs;
};

/// More GEMMs are more commands; what else there is, is about the same.
size_t gemmsOf(const Candidate &candidate) {
  return static_cast<size_t>(4 * candidate.chunks() * candidate.tailSplit());
}

/// A line each, below the title: predicted_us,measured_us,candidate.
Table readTable(const std::string &shape) {
  Table table;
  std::ifstream in("tests/data/candidates_" + shape + ".csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    double predicted = 0, measured = 0;
    char comma = 0;
    std::string text;
    if (!(words >> predicted >> comma >> measured >> comma >> text))
      continue;
    Result<Candidate> candidate = Candidate::parse(text);
    EXPECT_TRUE(candidate) << line;
    table.predictedCandidates.push_back({predicted, gemmsOf(*candidate), familyOf(*candidate)});
    table.measuredUs.push_back(measured);
  }
  return table;
}

struct Measured {
  const char *shape;
  int mostOff; ///< choices of a hundred beyond 3 % and 3 us: what is best is so by luck, too
};

class MeasuredTable : public testing::TestWithParam<Measured> {};

/// Times with noise, where preparing takes as long as it did there.
TEST_P(MeasuredTable, HasItsBestFound) {
  const Table table = readTable(GetParam().shape);
  ASSERT_GT(table.predictedCandidates.size(), 300u);
  const double best = *std::min_element(table.measuredUs.begin(), table.measuredUs.end());
  int off = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine(table.measuredUs, seed);
    machine.noise = 0.04;
    Result<CandidateTimes> times =
        timeCandidates(table.predictedCandidates, TimingLimits::within(2), machine.actions());
    ASSERT_TRUE(times);
    const double found = table.measuredUs[times->times.front().candidate];
    off += found > best + std::max(3.0, 0.03 * best);
    EXPECT_LE(found, best + std::max(3.0, 0.05 * best)) << machine.tried.size() << " were timed";
    EXPECT_LE(machine.seconds, 2.1);
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
