//===- tests/pairs/links_file_test.cpp - which devices ranks get ------------------------------===//

#include "api/pairs/links_file.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/report_json.h"
#include "tests/machine/fake_machine.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

const std::vector<std::string> kHere = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"};

/// Four GPUs, of which 0 and 2 are fast with each other, and so are 1 and 3, 2 and 1, 3 and 0.
PairReport someReport() {
  PairReport report;
  report.backend = "cuda";
  report.hostname = "here";
  for (const std::string &uuid : kHere)
    report.devices.push_back({"NVIDIA H200", uuid, "", -1});
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 4; ++b) {
      if (a == b)
        continue;
      PairRow row{a, b, {}, {}};
      PathReport &path = on(row, Path::PutEngine);
      path.outcome = PathOutcome::Measured;
      const bool isFast = (a + b) % 2 == 0 || (a + b) == 3;
      path.points = {{4, 3, 0.001}, {1 << 28, 0, isFast ? 300.0 : 250.0}};
      report.rows.push_back(row);
    }
  return report;
}

TEST(LinksFile, PutsRanksInTheBestOrder) {
  const Result<LinkedRanks> linked = chooseByLinks(someReport(), 4, "here", kHere);
  ASSERT_TRUE(linked.isOk()) << linked.status().message();
  // A ring of fast hops, wherever it begins and whichever way it goes.
  const std::vector<std::string> ring = {"GPU-a", "GPU-c", "GPU-b", "GPU-d"};
  const std::vector<std::string> back = {"GPU-a", "GPU-d", "GPU-b", "GPU-c"};
  EXPECT_TRUE(linked->uuids == ring || linked->uuids == back) << linked->sentence;
  const auto environment = environmentOf(*linked);
  ASSERT_EQ(environment.size(), 1u);
  EXPECT_EQ(environment.front().first, "CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(environment.front().second,
            linked->uuids == ring ? "GPU-a,GPU-c,GPU-b,GPU-d" : "GPU-a,GPU-d,GPU-b,GPU-c");
}

TEST(LinksFile, ADriverThatNeverAnswersIsNotWaitedFor) {
  FakeMachine machine;
  machine.write("/pairs.json", encodePairReport(someReport(), {}, {}));
  machine.write("/fake_nvml.txt", "hang 1\n");
  setenv("FAKE_NVML", (machine.root() + "/fake_nvml.txt").c_str(), 1);
  setenv("BRAID_NVML_LIBRARY", BRAID_FAKE_NVML, 1);
  const auto linked = readLinks(machine.root() + "/pairs.json", 4, std::chrono::milliseconds(100));
  unsetenv("BRAID_NVML_LIBRARY");
  EXPECT_EQ(linked.status().code(), StatusCode::TimedOut) << linked.status().message();
}

TEST(LinksFile, TakesTheFastestOfFewer) {
  const Result<LinkedRanks> linked = chooseByLinks(someReport(), 2, "here", kHere);
  ASSERT_TRUE(linked.isOk());
  ASSERT_EQ(linked->uuids.size(), 2u);
  const int64_t a = linked->uuids[0].back() - 'a', b = linked->uuids[1].back() - 'a';
  EXPECT_TRUE((a + b) % 2 == 0 || a + b == 3);
}

TEST(LinksFile, LeavesOutWhoIsBroken) {
  PairReport report = someReport();
  for (PairRow &row : report.rows)
    if (row.source == 2 || row.destination == 2)
      on(row, Path::PutEngine).outcome = PathOutcome::Hung;
  const Result<LinkedRanks> three = chooseByLinks(report, 3, "here", kHere);
  ASSERT_TRUE(three.isOk()) << three.status().message();
  for (const std::string &uuid : three->uuids)
    EXPECT_NE(uuid, "GPU-c");
  const Result<LinkedRanks> four = chooseByLinks(report, 4, "here", kHere);
  ASSERT_EQ(four.status().code(), StatusCode::BadInput);
  EXPECT_NE(four.status().message().find(
                "expected at most 3 ranks for the devices of the report, got 4; "),
            std::string::npos)
      << four.status().message();
}

TEST(LinksFile, NeedsAWayBetweenRanks) {
  PairReport report = someReport();
  for (PairRow &row : report.rows)
    for (PathReport &path : row.paths)
      path = {};
  EXPECT_EQ(chooseByLinks(report, 2, "here", kHere).status().message(),
            "expected a report with 2 devices that reach each other in a ring, got none");
  EXPECT_TRUE(chooseByLinks(report, 1, "here", kHere).isOk());
}

TEST(LinksFile, IsOfThisMachine) {
  PairReport report = someReport();
  EXPECT_TRUE(chooseByLinks(report, 2, "a container of it", kHere).isOk());
  EXPECT_EQ(chooseByLinks(report, 2, "there", {kHere.data(), 3}).status().message(),
            "expected a report about GPUs that are here, on 'there' (GPU-a, GPU-b, GPU-c), got one "
            "about 'GPU-d' on 'here'");
  report.backend = "cpu";
  EXPECT_EQ(chooseByLinks(report, 2, "here", kHere).status().message(),
            "expected a report about GPUs, got one of backend 'cpu'");
}

} // namespace
} // namespace braid::test
