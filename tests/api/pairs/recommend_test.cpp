//===- tests/api/pairs/recommend_test.cpp - orders, paths, and whom to leave out --------------===//

#include "api/pairs/recommend.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/ring_order.h"
#include "tests/api/pairs/random_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace braid::pairs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PairReport nvlinks(size_t devices, double noise = 0.01) {
  std::mt19937 random(static_cast<unsigned>(devices));
  return healthyReport({.devices = devices, .island = devices, .noise = noise}, random);
}

Recommendations recommendFor(const PairReport &report) { return recommend(report, judge(report)); }

HopRates randomRates(size_t devices, std::mt19937 &random) {
  HopRates rates(devices);
  for (size_t source = 0; source < devices; ++source)
    for (size_t destination = 0; destination < devices; ++destination)
      if (source != destination)
        rates.at(source, destination) = static_cast<double>(1 + random() % 100);
  return rates;
}

std::vector<size_t> everybody(size_t devices) {
  std::vector<size_t> members(devices);
  std::iota(members.begin(), members.end(), size_t(0));
  return members;
}

TEST(RingOrder, TriesAllRingsOfFew) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const size_t devices = 2 + random() % 5;
    const HopRates rates = randomRates(devices, random);
    const RingRate found = rateOf(rates, fastestRing(rates, everybody(devices)));
    std::vector<size_t> ring = everybody(devices);
    do {
      const RingRate other = rateOf(rates, ring);
      ASSERT_GE(found.slowest, other.slowest);
      if (found.slowest == other.slowest) {
        ASSERT_GE(found.sum, other.sum * (1 - 1e-9));
      }
    } while (std::next_permutation(ring.begin(), ring.end()));
  }
}

TEST(RingOrder, SearchIsNearlyAsGoodAsTryingAll) {
  std::mt19937 random(2);
  int asGood = 0;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    const size_t devices = 5 + random() % 4;
    const HopRates rates = randomRates(devices, random);
    const RingRate exact = rateOf(rates, fastestRing(rates, everybody(devices), 8));
    const RingRate found = rateOf(rates, fastestRing(rates, everybody(devices), 0));
    ASSERT_LE(found.slowest, exact.slowest);
    asGood += found.slowest >= 0.9 * exact.slowest;
  }
  // Rates at random are harder than those of machines.
  EXPECT_GE(asGood, kCases * 8 / 10);
}

TEST(RingOrder, SearchAvoidsSlowHopsAmongMany) {
  std::mt19937 random(3);
  for (size_t devices : {9, 16, 33, 64}) {
    HopRates rates(devices);
    for (size_t source = 0; source < devices; ++source)
      for (size_t destination = 0; destination < devices; ++destination)
        rates.at(source, destination) = random() % 5 == 0 ? 40 : 380;
    const std::vector<size_t> ring = fastestRing(rates, everybody(devices));
    EXPECT_EQ(rateOf(rates, ring).slowest, 380) << devices;
    std::vector<size_t> sorted = ring;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, everybody(devices));
    EXPECT_EQ(ring, fastestRing(rates, everybody(devices)));
  }
}

TEST(RingOrder, SearchLeavesEachIslandOnce) {
  // Devices of an island have every fourth number.
  constexpr size_t kDevices = 32, kIslands = 4;
  HopRates rates(kDevices);
  for (size_t source = 0; source < kDevices; ++source)
    for (size_t destination = 0; destination < kDevices; ++destination)
      rates.at(source, destination) = source % kIslands == destination % kIslands ? 380 : 20;
  const RingRate found = rateOf(rates, fastestRing(rates, everybody(kDevices)));
  EXPECT_EQ(found.sum, 380.0 * (kDevices - kIslands) + 20.0 * kIslands);
}

TEST(Recommend, HealthyMachineKeepsItsOrder) {
  for (size_t devices : {2, 3, 8, 16}) {
    const Recommendations all = recommendFor(nvlinks(devices));
    EXPECT_TRUE(all.leaveOut.empty());
    EXPECT_TRUE(std::is_sorted(all.order.devices.begin(), all.order.devices.end()));
    EXPECT_EQ(all.order.devices.size(), devices);
    EXPECT_THAT(all.order.sentence, HasSubstr("keep devices in the order of their numbers"));
    EXPECT_THAT(all.pathSentences,
                ElementsAre("for small transfers: put-kernel", "for large transfers: put-engine"));
  }
}

TEST(Recommend, OrderAvoidsASlowPair) {
  PairReport report = nvlinks(4);
  makeSlow(rowOf(report, 1, 2), 5);
  makeSlow(rowOf(report, 2, 1), 5);
  const Recommendations all = recommendFor(report);
  EXPECT_TRUE(all.leaveOut.empty());
  EXPECT_GT(all.order.slowestGBps, 4 * all.order.slowestByNumberGBps);
  EXPECT_THAT(all.order.sentence, HasSubstr("order devices 0, "));
  for (size_t i = 0; i < 4; ++i) {
    const int64_t a = all.order.devices[i], b = all.order.devices[(i + 1) % 4];
    EXPECT_FALSE((a == 1 && b == 2) || (a == 2 && b == 1));
  }
}

TEST(Recommend, ASlowDeviceIsLeftOutWithWhatThatWins) {
  PairReport report = nvlinks(8);
  for (PairRow &row : report.rows)
    if (row.source == 5 || row.destination == 5)
      makeSlow(row, 6);
  const Recommendations all = recommendFor(report);
  ASSERT_EQ(all.leaveOut.size(), 1u);
  EXPECT_EQ(all.leaveOut.front().device, 5);
  EXPECT_GT(all.leaveOut.front().slowestWithoutGBps, 5 * all.leaveOut.front().slowestWithGBps);
  EXPECT_THAT(all.leaveOut.front().sentence,
              HasSubstr("leave out device 5: it slows down all others, and the slowest hop of the "
                        "best ring then runs at 3"));
  EXPECT_THAT(all.order.devices, ElementsAre(0, 1, 2, 3, 4, 6, 7));
}

TEST(Recommend, TwoSlowDevicesAreLeftOutTogether) {
  PairReport report = nvlinks(8);
  for (PairRow &row : report.rows)
    if (row.source == 5 || row.destination == 5 || row.source == 1 || row.destination == 1)
      makeSlow(row, 6);
  const Recommendations all = recommendFor(report);
  ASSERT_EQ(all.leaveOut.size(), 2u);
  EXPECT_THAT(all.leaveOut.front().sentence,
              HasSubstr("leave out device 1: together, devices 1, 5 slow down all others"));
  EXPECT_THAT(all.order.devices, ElementsAre(0, 2, 3, 4, 6, 7));
}

TEST(Recommend, ADeadDeviceIsLeftOut) {
  for (PathOutcome outcome : {PathOutcome::Hung, PathOutcome::Crashed, PathOutcome::WrongData}) {
    PairReport report = nvlinks(8);
    for (PairRow &row : report.rows)
      if (row.source == 2 || row.destination == 2)
        fail(row, outcome);
    const Recommendations all = recommendFor(report);
    ASSERT_EQ(all.leaveOut.size(), 1u);
    EXPECT_EQ(all.leaveOut.front().device, 2);
    EXPECT_THAT(all.leaveOut.front().sentence, HasSubstr("no ring of all devices works"));
    EXPECT_THAT(all.order.devices, ElementsAre(0, 1, 3, 4, 5, 6, 7));
    ASSERT_FALSE(all.pathSentences.empty());
    EXPECT_THAT(all.pathSentences.front(), HasSubstr("but no path"));
  }
}

TEST(Recommend, APairThatHangsIsAvoidedAndNobodyIsLeftOut) {
  PairReport report = nvlinks(4);
  fail(rowOf(report, 0, 1), PathOutcome::Hung);
  fail(rowOf(report, 1, 0), PathOutcome::Hung);
  const Recommendations all = recommendFor(report);
  EXPECT_TRUE(all.leaveOut.empty());
  EXPECT_THAT(all.order.sentence, HasSubstr("and the order of their numbers does not work"));
  EXPECT_THAT(all.pathSentences.front(), HasSubstr("but no path between devices 0 and 1"));
}

TEST(Recommend, OfThreeDevicesOneOfAHangingPairHasToGo) {
  PairReport report = nvlinks(3);
  fail(rowOf(report, 0, 2), PathOutcome::Hung);
  fail(rowOf(report, 2, 0), PathOutcome::Hung);
  const Recommendations all = recommendFor(report);
  ASSERT_EQ(all.leaveOut.size(), 1u);
  EXPECT_EQ(all.leaveOut.front().device, 0);
  EXPECT_THAT(all.leaveOut.front().sentence,
              HasSubstr("2 of its transfers to and from the others fail"));
  EXPECT_THAT(all.order.devices, ElementsAre(1, 2));
}

TEST(Recommend, PathsDifferOnlyWhereItMatters) {
  PairReport report = nvlinks(4);
  PairRow &row = rowOf(report, 3, 1);
  for (PathPoint &point : on(row, Path::PutEngine).points)
    point.GBps /= 2;
  const Recommendations all = recommendFor(report);
  ASSERT_FALSE(all.pathSentences.empty());
  EXPECT_EQ(all.paths.size(), 12u);
  EXPECT_THAT(
      all.pathSentences.back(),
      HasSubstr("for large transfers: put-engine, but get-engine from device 3 to device 1"));
  for (const PathChoice &choice : all.paths)
    EXPECT_EQ(choice.large,
              choice.source == 3 && choice.destination == 1 ? Path::GetEngine : Path::PutEngine);
}

TEST(Recommend, NoiseOfCpuRanksChangesNothing) {
  std::mt19937 random(3);
  PairReport report =
      healthyReport({.devices = 6, .island = 6, .noise = 0.4, .hasTopology = false}, random);
  report.backend = "cpu";
  const Recommendations all = recommendFor(report);
  EXPECT_TRUE(all.leaveOut.empty());
  EXPECT_THAT(all.order.devices, ElementsAre(0, 1, 2, 3, 4, 5));
  for (const std::string &sentence : all.pathSentences)
    EXPECT_THAT(sentence, ::testing::Not(HasSubstr("but")));
}

TEST(Recommend, NothingOfNothing) {
  EXPECT_EQ(recommendFor({}).order.sentence, "there are no pairs");
  PairReport report;
  report.devices.resize(3);
  for (int64_t source = 0; source < 3; ++source)
    for (int64_t destination = 0; destination < 3; ++destination)
      if (source != destination)
        report.rows.push_back({source, destination, {}, {}});
  const Recommendations all = recommendFor(report);
  EXPECT_TRUE(all.leaveOut.empty());
  EXPECT_THAT(all.order.sentence, HasSubstr("no ring of all devices works"));
  EXPECT_THAT(all.pathSentences, ElementsAre("for small transfers: no path works",
                                             "for large transfers: no path works"));
}

TEST(Recommend, OfSixtyFourDevicesItIsQuickAndExact) {
  PairReport report = nvlinks(64);
  for (PairRow &row : report.rows)
    if (row.source == 40 || row.destination == 40)
      makeSlow(row, 4);
  const Recommendations all = recommendFor(report);
  ASSERT_EQ(all.leaveOut.size(), 1u);
  EXPECT_EQ(all.leaveOut.front().device, 40);
}

} // namespace
} // namespace braid::pairs_test
