//===- tests/api/pairs/heat_map_test.cpp - reports as a picture and as a page -----------------===//
//
// What a browser makes of them is looked at by people; see show_report.
//
//===----------------------------------------------------------------------------------------===//

#include "api/pairs/heat_map.h"

#include "api/pairs/heat_drawing.h"
#include "api/pairs/pair_figures.h"
#include "tests/api/pairs/random_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <regex>
#include <set>

namespace braid::pairs_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PairReport drawn(size_t devices, bool isFaulty = true) {
  std::mt19937 random(static_cast<unsigned>(devices));
  PairReport report = healthyReport({.devices = devices, .island = devices, .noise = 0.01}, random);
  if (isFaulty)
    breakSome(report);
  return report;
}

std::string svgOf(const PairReport &report) { return heatMapSvg(report, judge(report)); }
std::string pageOf(const PairReport &report) {
  const std::vector<Verdict> verdicts = judge(report);
  return heatMapHtml(report, verdicts, recommend(report, verdicts));
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// The first tag that is closed without being open, or left open; empty if there is none. Elements
/// of `empty` have no end.
std::string unbalanced(const std::string &text, const std::set<std::string> &empty) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)((?:\"[^\"]*\"|[^\">])*?)(/?)>");
  for (std::sregex_iterator i(text.begin(), text.end(), tag), end; i != end; ++i) {
    const std::string word = (*i)[2];
    if (!(*i)[4].str().empty() || empty.count(word))
      continue;
    if ((*i)[1].str().empty()) {
      open.push_back(word);
      continue;
    }
    if (open.empty() || open.back() != word)
      return word;
    open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

std::string dataOf(const std::string &page) {
  const std::string begin = "id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

std::string withoutScripts(const std::string &page) {
  std::string text = page;
  for (size_t at = text.find("<script"); at != std::string::npos; at = text.find("<script")) {
    const size_t end = text.find("</script>", at);
    text.erase(at, end + 9 - at);
  }
  const size_t style = text.find("<style>");
  return text.erase(style, text.find("</style>") + 8 - style);
}

TEST(HeatMapSvg, HasACellForEachPairAndMarks) {
  const PairReport report = drawn(8);
  const std::string svg = svgOf(report);
  EXPECT_EQ(countOf(svg, "<title>device "), 56u);
  EXPECT_EQ(countOf(svg, ">hung</text>"), 2u);
  EXPECT_EQ(countOf(svg, ">crash</text>"), 1u);
  EXPECT_EQ(countOf(svg, ">wrong</text>"), 1u);
  EXPECT_THAT(svg, HasSubstr("<title>device 1 to device 2: hung</title>"));
  EXPECT_THAT(svg, HasSubstr("device 0: NVIDIA H200 0000:10:00.0"));
  EXPECT_THAT(svg, HasSubstr("fault: transfers between devices 1 and 2 hang"));
  // 14 of the slow device, 1 one way, 1 late, 2 by the host; one of the legend.
  EXPECT_EQ(countOf(svg, "stroke=\"#d1410c\""), 19u);
  EXPECT_EQ(unbalanced(svg, {}), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(HeatMapSvg, ManyDevicesHaveLettersAndNoFigures) {
  const std::string svg = svgOf(drawn(64));
  EXPECT_EQ(countOf(svg, "<title>device "), 64u * 63u);
  EXPECT_EQ(countOf(svg, ">H</text>"), 2u);
  EXPECT_LT(svg.size(), 800u << 10);
}

TEST(HeatMapHtml, IsOneBalancedPageThatNeedsNothingElse) {
  for (size_t devices : {2, 8, 17}) {
    const std::string page = pageOf(drawn(devices));
    EXPECT_EQ(unbalanced(withoutScripts(page), {"meta"}), "") << devices;
    EXPECT_THAT(page, ::testing::StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
    EXPECT_EQ(countOf(page, "</script>"), 2u);
    for (const char *outside : {"<link", "<img", "<iframe", " src=", "url(", "@import", "fetch("})
      EXPECT_THAT(page, Not(HasSubstr(outside)));
    EXPECT_LE(page.size() - dataOf(page).size(), 40u << 10);
  }
}

TEST(HeatMapHtml, SaysTheVerdictsAndWhatToDo) {
  const std::string page = pageOf(drawn(8));
  EXPECT_THAT(page, HasSubstr("<li class=\"fault\"><span class=\"badge\">fault</span> "
                              "<span>Transfers between devices 1 and 2 hang."));
  EXPECT_THAT(page, HasSubstr("<li>Leave out device 6: it slows down all others"));
  EXPECT_THAT(pageOf(drawn(4, false)), HasSubstr("None: every pair is as fast as its like."));
}

TEST(HeatMapHtml, DataHaveEveryFigure) {
  const PairReport report = drawn(8);
  const auto data = nlohmann::json::parse(dataOf(pageOf(report)));
  ASSERT_EQ(data["rows"].size(), 56u);
  ASSERT_EQ(data["sizes"].size(), report.rows[0].paths[0].points.size());
  for (size_t i = 0; i < report.rows.size(); ++i)
    for (Path path : kAllPaths) {
      const auto &json = data["rows"][i][6][static_cast<size_t>(path)];
      const PathReport &expected = on(report.rows[i], path);
      ASSERT_EQ(json[0], static_cast<int>(expected.outcome));
      ASSERT_EQ(json[3].size(), 3 * expected.points.size());
      for (size_t point = 0; point < expected.points.size(); ++point)
        ASSERT_NEAR(json[3][3 * point + 2].get<double>(), expected.points[point].GBps,
                    1e-3 * expected.points[point].GBps);
    }
  EXPECT_EQ(data["verdicts"].size(), judge(report).size());
}

TEST(HeatMapHtml, TextOfOthersIsText) {
  PairReport report = drawn(2, false);
  const std::string evil = "</script><b onload=\"x\">&'\x01\xff";
  report.hostname = report.devices[0].name = evil;
  fail(rowOf(report, 0, 1), PathOutcome::Crashed);
  on(rowOf(report, 0, 1), Path::PutEngine).reason = evil;
  for (const std::string &text : {pageOf(report), svgOf(report)}) {
    EXPECT_THAT(text, Not(HasSubstr("<b ")));
    EXPECT_THAT(text, HasSubstr("&lt;/script&gt;&lt;b onload=&quot;x&quot;&gt;&amp;'??"));
    EXPECT_EQ(text.find('\x01'), std::string::npos);
    EXPECT_EQ(text.find('\xff'), std::string::npos);
  }
  EXPECT_EQ(countOf(pageOf(report), "</script>"), 2u);
}

TEST(HeatMap, NothingIsDrawnOfNothing) {
  EXPECT_EQ(unbalanced(svgOf({}), {}), "");
  EXPECT_EQ(unbalanced(withoutScripts(pageOf({})), {"meta"}), "");
}

TEST(HeatDrawing, ColoursGoFromDarkToLight) {
  auto brightness = [](double share) {
    const std::string colour = heatColour(share);
    auto channel = [&](size_t at) { return std::stoi(colour.substr(at, 2), nullptr, 16); };
    return 0.299 * channel(1) + 0.587 * channel(3) + 0.114 * channel(5);
  };
  for (int i = 0; i < 20; ++i)
    EXPECT_LT(brightness(i / 20.0), brightness((i + 1) / 20.0));
  EXPECT_EQ(heatColour(-1), heatColour(0));
  EXPECT_EQ(heatColour(2), heatColour(1));
}

} // namespace
} // namespace braid::pairs_test
