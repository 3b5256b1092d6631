//===- tests/runtime/find_fastest_test.cpp - noise, time limits and unsupported candidates ----===//

#include "runtime/tune/find_fastest.h"

#include <gmock/gmock.h>

#include <random>

namespace braid {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

/// Candidates with times in milliseconds, plus or minus `noise`. A negative time means Unsupported.
struct Bench {
  std::vector<double> times;
  double noise = 0;
  std::minstd_rand dice{1};
  steady_clock::time_point clock = {};
  std::vector<int> measured = std::vector<int>(times.size()); ///< number of measurements

  Result<double> measure(size_t number) {
    ++measured[number];
    if (times[number] < 0)
      return Status(StatusCode::Unsupported, "not here");
    const double off = noise * (2.0 * double(dice()) / double(std::minstd_rand::max()) - 1);
    const double time = times[number] * (1 + off);
    clock += std::chrono::duration_cast<steady_clock::duration>(
        std::chrono::duration<double, std::milli>(time));
    return time;
  }
  Result<size_t> find(milliseconds atMost) {
    return findFastest(
        times.size(),
        [this](size_t number, FindPass) -> Result<std::vector<double>> {
          Result<double> time = measure(number);
          return time ? Result<std::vector<double>>({*time}) : time.status();
        },
        {atMost}, [this] { return clock; });
  }
  double spent() const {
    return std::chrono::duration<double, std::milli>(clock - steady_clock::time_point()).count();
  }
};

TEST(FindFastest, TakesTheFastestOne) {
  Bench bench{{5, 4, 6, 3, 7, 9, 8}};
  Result<size_t> found = bench.find(milliseconds(1000));
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, 3u);
  EXPECT_THAT(bench.measured, ElementsAre(12, 12, 1, 12, 1, 1, 1)) << "the best, and the first";
}

TEST(FindFastest, KeepsTheFirstOneWhereItIsTheNoiseThatIsFaster) {
  int changed = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Bench bench{std::vector<double>(32, 5.0), 0.03, std::minstd_rand(seed)};
    changed += *bench.find(milliseconds(2000)) != 0;
  }
  EXPECT_LE(changed, 20) << "of 200";
}

TEST(FindFastest, SeesThroughTheNoiseWhatIsMuchFaster) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Bench bench{{5, 5.1, 4.5, 5.2, 5.3}, 0.03, std::minstd_rand(seed)};
    EXPECT_EQ(*bench.find(milliseconds(2000)), 2u) << seed;
  }
}

/// The result must follow the times of the final pass, in which the order of the candidates differs
/// from that of the first pass.
TEST(FindFastest, BelievesTheFinalPass) {
  const double shortLook[] = {5, 4, 4.5}, longLook[] = {5, 5.5, 4.2};
  steady_clock::time_point clock = {};
  Result<size_t> found = findFastest(
      3,
      [&](size_t number, FindPass pass) -> Result<std::vector<double>> {
        clock += milliseconds(10);
        return std::vector<double>{(pass == FindPass::First ? shortLook : longLook)[number]};
      },
      {milliseconds(300)}, [&] { return clock; });
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, 2u);
}

/// Returns the winner of a search in which each candidate has one time for each of two conditions.
/// All times increase steadily during the search.
Result<size_t> findUnderTwoConditions(const std::vector<std::vector<double>> &times) {
  steady_clock::time_point clock = {};
  double drift = 1;
  return findFastest(
      times.size(),
      [&](size_t number, FindPass) -> Result<std::vector<double>> {
        clock += milliseconds(10);
        drift *= 1.001;
        return std::vector<double>{times[number][0] * drift, times[number][1] * drift};
      },
      {milliseconds(300)}, [&] { return clock; });
}

TEST(FindFastest, TakesNothingThatIsSlowerUnderSomeConditions) {
  EXPECT_EQ(*findUnderTwoConditions({{5, 5}, {4, 5.3}, {5.3, 4}}), 0u);
  EXPECT_EQ(*findUnderTwoConditions({{5, 5}, {4, 5.3}, {4.6, 4.7}}), 2u);
  EXPECT_EQ(*findUnderTwoConditions({{5, 8}, {4.9, 7}, {4.5, 7.5}}), 2u)
      << "each as its worse one: 0.98 and 0.94";
}

/// A search cannot detect noise that outlasts the search, so a minimum gain can be required.
TEST(FindFastest, AsksForAsMuchAsItIsTold) {
  auto find = [](double leastGain) {
    return *findFastest(2,
                        [](size_t number, FindPass) -> Result<std::vector<double>> {
                          return std::vector<double>{number == 0 ? 100.0 : 98.5};
                        },
                        {milliseconds(0), leastGain});
  };
  EXPECT_EQ(find(0.01), 1u);
  EXPECT_EQ(find(0.02), 0u);
}

TEST(FindFastest, LeavesOutWhatCannotBeDone) {
  Bench bench{{-1, 4, -1, 3}};
  EXPECT_EQ(*bench.find(milliseconds(1000)), 3u);
  Bench hopeless{{-1, -1}};
  EXPECT_EQ(hopeless.find(milliseconds(1000)).status().code(), StatusCode::Unsupported);
  Bench none{{}};
  EXPECT_EQ(none.find(milliseconds(1000)).status().code(), StatusCode::Unsupported);
  Bench single{{2}};
  EXPECT_EQ(*single.find(milliseconds(1000)), 0u);
}

TEST(FindFastest, AnyOtherFailureEndsIt) {
  Result<size_t> found = findFastest(2,
                                     [](size_t, FindPass) -> Result<std::vector<double>> {
                                       return Status(StatusCode::PeerFailed, "gone");
                                     },
                                     {milliseconds(10)});
  EXPECT_EQ(found.status().code(), StatusCode::PeerFailed);
}

TEST(FindFastest, StaysWithinTheTime) {
  for (double each : {0.5, 5.0, 13.0, 40.0}) {
    Bench bench{std::vector<double>(32, each)};
    ASSERT_TRUE(bench.find(milliseconds(600)));
    EXPECT_THAT(bench.spent(), AllOf(Ge(32 * 0.5), Le(600 + 5 * each))) << each;
  }
}

TEST(FindFastest, ComparesTwoHoweverLongTheyTake) {
  Bench bench{{5000, 4000, 3000}};
  EXPECT_EQ(*bench.find(milliseconds(600)), 1u);
  EXPECT_THAT(bench.measured, ElementsAre(4, 4, 0));
}

} // namespace
} // namespace braid
