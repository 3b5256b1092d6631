//===- tests/api/pairs/show_report.cpp - shows a machine that is made up ----------------------===//
//
// show_report DEVICES healthy|faults text|colours|all|svg|html|json
//
//===----------------------------------------------------------------------------------------===//

#include "api/pairs/heat_map.h"
#include "api/pairs/matrix.h"
#include "api/pairs/report_json.h"
#include "tests/api/pairs/random_report.h"

#include <cstdio>
#include <string>

namespace braid::pairs_test {
namespace {

PairReport shown(size_t devices, bool isFaulty) {
  std::mt19937 random(static_cast<unsigned>(devices));
  const size_t island = devices > 8 ? devices / 4 : devices;
  PairReport report = healthyReport(
      {.devices = devices, .between = LinkClass::CrossNuma, .island = island, .noise = 0.02},
      random);
  report.hostname = "node-17.example";
  if (isFaulty)
    breakSome(report);
  return report;
}

std::string textOf(const PairReport &report, const std::string &format) {
  const std::vector<Verdict> verdicts = judge(report);
  const Recommendations all = recommend(report, verdicts);
  if (format == "svg")
    return heatMapSvg(report, verdicts);
  if (format == "html")
    return heatMapHtml(report, verdicts, all);
  if (format == "json")
    return encodePairReport(report, verdicts, all);
  return matrixText(report, verdicts, all,
                    {.colours = format == "colours", .allPaths = format == "all"});
}

} // namespace
} // namespace braid::pairs_test

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fputs("usage: show_report DEVICES healthy|faults text|colours|all|svg|html|json\n",
               stderr);
    return 2;
  }
  const braid::PairReport report =
      braid::pairs_test::shown(std::stoul(argv[1]), std::string(argv[2]) == "faults");
  std::fputs(braid::pairs_test::textOf(report, argv[3]).c_str(), stdout);
  return 0;
}
