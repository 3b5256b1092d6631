//===- tests/api/pairs/report_json_test.cpp - reports as JSON, in both directions -------------===//

#include "api/pairs/report_json.h"

#include "api/pairs/pair_figures.h"
#include "tests/api/pairs/random_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>

namespace braid::pairs_test {
namespace {

using Json = nlohmann::ordered_json;

std::string encoded(const PairReport &report) {
  const std::vector<Verdict> verdicts = judge(report);
  return encodePairReport(report, verdicts, recommend(report, verdicts));
}

PairReport withEverything() {
  std::mt19937 random(1);
  PairReport report = healthyReport({.devices = 4, .island = 2}, random);
  report.hostname = "a \"host\"\n<name>";
  report.devices[1] = {};
  report.together = PathOutcome::Hung;
  report.togetherReason = "no step for 20 s";
  fail(rowOf(report, 0, 1), PathOutcome::Hung);
  fail(rowOf(report, 1, 0), PathOutcome::Crashed);
  fail(rowOf(report, 2, 3), PathOutcome::WrongData);
  on(rowOf(report, 2, 3), Path::Host).wrong->together = true;
  takePeerAccess(rowOf(report, 0, 3));
  on(rowOf(report, 3, 0), Path::Messages) = {};
  report.couples = {{Path::GetEngine, 4096, {0, 1, true, 300, 150}, {3, 2, false, 310, 0}}};
  return report;
}

TEST(PairReportJson, IsReadAsItWasWritten) {
  const std::string text = encoded(withEverything());
  Result<PairReport> report = decodePairReport(text);
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(encoded(*report), text);
  EXPECT_EQ(report->hostname, "a \"host\"\n<name>");
  EXPECT_EQ(report->together, PathOutcome::Hung);
  EXPECT_EQ(report->togetherReason, "no step for 20 s");
  const PathReport &wrong = on(rowOf(*report, 2, 3), Path::Host);
  ASSERT_TRUE(wrong.wrong);
  EXPECT_EQ(wrong.wrong->offset, 4096);
  EXPECT_TRUE(wrong.wrong->together);
  EXPECT_FALSE(on(rowOf(*report, 2, 3), Path::PutEngine).wrong->together);
  ASSERT_EQ(report->couples.size(), 1u);
  EXPECT_EQ(report->couples.front().path, Path::GetEngine);
  EXPECT_EQ(report->couples.front().bytes, 4096);
  EXPECT_TRUE(report->couples.front().one.bothWays);
  EXPECT_EQ(report->couples.front().one.togetherGBps, 150);
  EXPECT_EQ(report->couples.front().other.source, 3);
  EXPECT_EQ(on(rowOf(*report, 0, 1), Path::Host).outcome, PathOutcome::Hung);
  EXPECT_EQ(rowOf(*report, 0, 3).link.noPeerAccess, "the chipset does not support it");
  EXPECT_EQ(on(rowOf(*report, 3, 0), Path::Messages).outcome, PathOutcome::NotMeasured);
}

TEST(PairReportJson, RandomReportsAreReadAsTheyWereWritten) {
  std::mt19937 random(2);
  for (int i = 0; i < 8; ++i) {
    const PairReport report = healthyReport(randomShape(random, 8), random);
    const std::string text = encoded(report);
    Result<PairReport> again = decodePairReport(text);
    ASSERT_TRUE(again) << again.status().message();
    EXPECT_EQ(encoded(*again), text);
    for (size_t row = 0; row < report.rows.size(); ++row)
      EXPECT_NEAR(bestBandwidth(again->rows[row]), bestBandwidth(report.rows[row]), 1e-3);
  }
}

TEST(PairReportJson, SaysWhatFollowsFromIt) {
  const Json json = Json::parse(encoded(withEverything()));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["verdicts"][0]["kind"], "hung");
  EXPECT_EQ(json["verdicts"][0]["source"], 0);
  EXPECT_EQ(json["verdicts"][0]["destination"], 1);
  EXPECT_TRUE(json["recommendations"]["mesh_order"].is_array());
  EXPECT_EQ(json["recommendations"]["paths"].size(), 12u);
}

/// One mistake, and what is said about it.
struct Mistake {
  const char *pointer;
  Json value;
  const char *message;
};

TEST(PairReportJson, EveryMistakeIsLocated) {
  const Json good = Json::parse(encoded(withEverything()));
  const std::string row = "/pairs/2", path = row + "/paths/put-engine";
  const Mistake mistakes[] = {
      {"/format", "braid", "format: expected \"braid p2p\", got \"braid\""},
      {"/version", 2, "version: expected 1, got 2"},
      {"/backend", 3, "it.backend: expected a text of at most 4096 bytes, got 3"},
      {"/together", 3, "together.outcome: expected not-measured, measured"},
      {"/devices", 3, "devices: expected a list, got 3"},
      {"/devices", Json(std::vector<int>(300)), "devices: expected at most 256 of them, got 300"},
      {"/devices/0", 3, "devices[0]: expected an object, got 3"},
      {"/devices/0/name", std::string(5000, 'x'), "devices[0].name: expected a text of at most"},
      {"/devices/0/numa_node", "x", "devices[0].numa_node: expected an integer from -1 to "},
      {"/pairs", nullptr, "pairs: expected a list, got nothing"},
      {"/pairs/2/source", 4, "pairs[2].source: expected an integer from 0 to 3, got 4"},
      {"/pairs/2/source", -1, "pairs[2].source: expected an integer from 0 to 3, got -1"},
      {"/pairs/2/source", 0.5, "pairs[2].source: expected an integer from 0 to 3, got 0.5"},
      {"/pairs/2/source", uint64_t(1) << 63, "got 9223372036854775808"},
      {"/pairs/2/destination", 0, "expected another device than the source, got 0"},
      {"/pairs/2/destination", 1,
       "pairs[2]: expected each ordered pair once, got \"0 to 1 again\""},
      {"/pairs/2/link", 3,
       "pairs[2].link.class: expected own, nvlink, pcie-switch, host-bridge, "
       "same-numa, cross-numa or unknown, got nothing"},
      {"/pairs/2/link/class", "wire", "got \"wire\""},
      {"/pairs/2/link/count", -1, "pairs[2].link.count: expected an integer from 0 to"},
      {"/pairs/2/link/nominal_GBps", -1, "nominal_GBps: expected a number from 0 to 1e+12, got -1"},
      {"/pairs/1/paths", 3, "pairs[1].paths: expected an object, got 3"},
      {"/pairs/1/paths/pigeon", 3,
       "pairs[1].paths: expected put-engine, put-kernel, get-engine, get-kernel, messages or host, "
       "got \"pigeon\""},
      {"/pairs/1/paths/host/outcome", "fine",
       "pairs[1].paths.host.outcome: expected not-measured, measured, unavailable, wrong-data, "
       "crashed or hung, got \"fine\""},
      {"/pairs/1/paths/host/points", 3, "pairs[1].paths.host.points: expected a list, got 3"},
      {"/pairs/1/paths/host/points/1", Json::array({1, 2}),
       "points[1]: expected bytes, microseconds and GB/s, got array"},
      {"/pairs/1/paths/host/points/1/0", 4, "points[1][0]: expected an integer from 5 to"},
      {"/pairs/1/paths/host/points/1/2", "x", "points[1][2]: expected a number from 0 to"},
      {"/pairs/1/paths/host/together_GBps", "x", "together_GBps: expected a number from 0 to"},
      {"/pairs/1/paths/host/wrong", 3, "wrong.bytes: expected an integer from 0 to"},
      {"/pairs/1/paths/host/wrong",
       {{"bytes", 1}, {"round", 1}, {"offset", 0}, {"expected", 256}},
       "wrong.expected: expected an integer from 0 to 255, got 256"},
      {"/pairs/1/paths/host/wrong",
       {{"bytes", 1}, {"round", 1}, {"offset", 0}, {"expected", 2}, {"got", 3}, {"together", 1}},
       "wrong.together: expected true or false, got 1"},
      {"/couples", 3, "couples: expected a list, got 3"},
      {"/couples/0/path", "put", "couples[0].path: expected put-engine, put-kernel"},
      {"/couples/0/links", Json::array({1}), "couples[0].links: expected two links, got array"},
      {"/couples/0/links/1/source", 4,
       "couples[0].links[1].source: expected an integer from 0 to 3, got 4"},
      {"/couples/0/links/1/source", 0, "couples[0].links: expected two links of four devices"},
      {"/couples/0/links/0/both_ways", 1,
       "couples[0].links[0].both_ways: expected true or false, got 1"},
      {"/couples/0/links/0/alone_GBps", "x",
       "couples[0].links[0].alone_GBps: expected a number from 0 to"},
  };
  for (const Mistake &mistake : mistakes) {
    Json bad = good;
    bad[Json::json_pointer(mistake.pointer)] = mistake.value;
    Result<PairReport> report = decodePairReport(bad.dump());
    ASSERT_FALSE(report) << mistake.pointer;
    EXPECT_EQ(report.status().code(), StatusCode::BadInput);
    EXPECT_THAT(report.status().message(), ::testing::StartsWith("report of pairs: "));
    EXPECT_THAT(report.status().message(), ::testing::HasSubstr(mistake.message));
  }
}

TEST(PairReportJson, WhatIsNoJsonIsLocated) {
  for (auto [text, message] :
       {std::pair("", "report of pairs: line 1, column 1: expected JSON"),
        {"{\n \"format\": x}", "report of pairs: line 2, column 12: expected JSON"},
        {"[1, 1e999]", "expected JSON"},
        {"\"\xff\"", "expected JSON"},
        {"[]", "report of pairs: format: expected \"braid p2p\", got nothing"}}) {
    Result<PairReport> report = decodePairReport(text);
    ASSERT_FALSE(report);
    EXPECT_THAT(report.status().message(), ::testing::HasSubstr(message));
  }
}

TEST(PairReportJson, WhatIsTooLargeOrDeepIsRefused) {
  EXPECT_FALSE(decodePairReport(std::string(kMostPairReportBytes + 1, ' ')));
  const size_t depth = 1 << 17;
  EXPECT_FALSE(decodePairReport(std::string(depth, '[') + std::string(depth, ']')));
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  Result<PairReport> report =
      decodePairReport("{\"format\":\"braid p2p\",\"version\":1,\"devices\":[" + deep + "]}");
  ASSERT_FALSE(report);
  EXPECT_THAT(report.status().message(), ::testing::HasSubstr("expected JSON"));
}

} // namespace
} // namespace braid::pairs_test
