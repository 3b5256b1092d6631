//===- tests/pairs/judge_test.cpp - slow pairs, and the form of a report ----------------------===//

#include "api/pairs/pair_report.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

#include <numeric>

namespace braid::test {
namespace {

constexpr int64_t kLarge = int64_t(256) << 20;

/// Returns a report in which put-engine reaches `GBps` for all pairs, over NVLink with a nominal
/// rate of 450 GB/s.
PairReport reportOf(int64_t devices, double GBps, int64_t bytes = kLarge) {
  std::vector<int64_t> numbers(static_cast<size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 10);
  PairReport report("cuda", numbers);
  report.hostname = "host<1>";
  for (MeasuredDevice &device : report.devices)
    device = {device.number, "NVIDIA H200", "GPU-1"};
  for (PairRow &row : report.rows) {
    row.link = {LinkClass::NvLink, 450};
    row.on(Path::PutEngine).points = {{4, 6.5, 0.001}, {bytes, 0, GBps}};
    row.on(Path::PutEngine).worsen(Verdict::Ok, "");
  }
  return report;
}

std::vector<std::pair<int64_t, int64_t>> slowPairs(const PairReport &report) {
  std::vector<std::pair<int64_t, int64_t>> slow;
  for (const PairRow &row : report.rows)
    if (row.verdict() == Verdict::Slow)
      slow.emplace_back(row.source - 10, row.destination - 10);
  return slow;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

TEST(Judge, NamesWhatIsSlowBesideItsLike) {
  PairReport report = reportOf(4, 390);
  report.row(1, 2).on(Path::PutEngine).points.back().GBps = 78;  // a fifth
  report.row(3, 0).on(Path::PutEngine).points.back().GBps = 345; // noise
  judge(report);
  EXPECT_EQ(slowPairs(report), (Pairs{{1, 2}}));
  EXPECT_EQ(report.row(1, 2).on(Path::PutEngine).reason,
            "78.0 GB/s at 256 MiB, expected about 390, the median of similar pairs");
}

TEST(Judge, ComparesTheDirectionsOfASinglePair) {
  PairReport report = reportOf(2, 25);
  for (PairRow &row : report.rows)
    row.link = {};
  report.row(1, 0).on(Path::PutEngine).points.back().GBps = 5;
  judge(report);
  EXPECT_EQ(slowPairs(report), (Pairs{{1, 0}}));
}

TEST(Judge, ComparesWithTheNominalRate) {
  PairReport report = reportOf(2, 200); // both directions are equal
  judge(report);
  EXPECT_EQ(slowPairs(report), (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(report.rows.front().on(Path::PutEngine).reason,
            "200 GB/s at 256 MiB, expected about 324 for a link of 450 GB/s (nvlink)");
}

TEST(Judge, SaysNothingWithoutReason) {
  PairReport healthy = reportOf(8, 380);
  judge(healthy);
  EXPECT_EQ(slowPairs(healthy), Pairs());
  // Pairs with different links are not compared, and neither are small transfers, whose time is
  // mostly latency.
  PairReport mixed = reportOf(4, 390);
  for (auto [one, other] : {std::pair<size_t, size_t>(0, 1), {1, 0}}) {
    mixed.row(one, other).link = {LinkClass::PcieSwitch, 31.5};
    mixed.row(one, other).on(Path::PutEngine).points.back().GBps = 26;
  }
  judge(mixed);
  EXPECT_EQ(slowPairs(mixed), Pairs());
  PairReport small = reportOf(4, 10, 65536);
  small.rows.front().on(Path::PutEngine).points.back().GBps = 1;
  judge(small);
  EXPECT_EQ(slowPairs(small), Pairs());
}

TEST(Judge, LeavesCpuRanksRoomForOtherWork) {
  PairReport report = reportOf(3, 6);
  report.backend = "cpu";
  for (PairRow &row : report.rows)
    row.link = {};
  report.row(0, 1).on(Path::PutEngine).points.back().GBps = 2;
  report.row(2, 1).on(Path::PutEngine).points.back().GBps = 1.2; // a fifth
  judge(report);
  EXPECT_EQ(slowPairs(report), (Pairs{{2, 1}}));
}

TEST(Judge, LeavesWorseVerdicts) {
  PairReport report = reportOf(4, 390);
  PathReport &path = report.row(1, 2).on(Path::PutEngine);
  path.points.back().GBps = 1;
  path.worsen(Verdict::Hung, "no progress");
  path.worsen(Verdict::Wrong, "byte 1 is wrong");
  path.worsen(Verdict::Crashed, "it died");
  judge(report);
  EXPECT_EQ(path.verdict, Verdict::Wrong);
  EXPECT_EQ(path.reason, "byte 1 is wrong");
  EXPECT_EQ(report.verdict(), Verdict::Wrong);
}

PairReport faultyReport() {
  PairReport report = reportOf(3, 390);
  report.row(0, 2).on(Path::GetKernel).worsen(Verdict::Hung, "no <progress>");
  for (PairRow &row : report.rows)
    row.on(Path::Messages).worsen(Verdict::Unavailable, "there is no NCCL");
  return report;
}

TEST(Report, IsShownAsText) {
  EXPECT_EQ(reportText(faultyReport()),
            R"(3 devices of host<1>, backend cuda
  10 NVIDIA H200 GPU-1
  11 NVIDIA H200 GPU-1
  12 NVIDIA H200 GPU-1

bandwidth in GB/s at 256 MiB, over the fastest path of each pair; rows are senders
              10      11      12
      10       -     390     390
      11     390       -     390
      12     390     390       -

latency in us at 4 B, over the fastest path of each pair; rows are senders
              10      11      12
      10       -    6.50    6.50
      11    6.50       -    6.50
      12    6.50    6.50       -

verdicts
  10 -> 12  hung    get-kernel  no <progress>
  5 of 6 pairs are ok
  messages is unavailable for 6 of 6 pairs: there is no NCCL
)");
}

TEST(Report, IsWrittenAsJson) {
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(reportJson(faultyReport()));
  ASSERT_TRUE(bool(json));
  const llvm::json::Object &pair = *(*json->getAsObject()->getArray("pairs"))[1].getAsObject();
  EXPECT_EQ(*pair.getInteger("destination"), 12);
  EXPECT_EQ(*pair.getString("verdict"), "hung");
  const llvm::json::Object &paths = *pair.getObject("paths");
  EXPECT_EQ(
      *paths.getObject("put-engine")->getArray("points"),
      (llvm::json::Array{llvm::json::Array{4, 6.5, 0.001}, llvm::json::Array{kLarge, 0, 390}}));
  EXPECT_EQ(*paths.getObject("get-kernel")->getString("reason"), "no <progress>");
}

TEST(Report, IsWrittenAsAPage) {
  const std::string page = reportHtml(faultyReport());
  EXPECT_NE(page.find("<td class=\"hung\""), std::string::npos);
  EXPECT_NE(page.find("no &lt;progress&gt;"), std::string::npos) << page;
  EXPECT_EQ(page.find("no <progress>"), std::string::npos);
}

} // namespace
} // namespace braid::test
