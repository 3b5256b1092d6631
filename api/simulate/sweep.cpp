//===- api/simulate/sweep.cpp - how predictions grow ------------------------------------------===//

#include "api/simulate/sweep.h"

#include "api/text/markup.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <cmath>

namespace braid {

Result<std::pair<std::string, std::vector<int64_t>>> parseSweep(const std::string &text) {
  auto [name, range] = llvm::StringRef(text).split('=');
  auto [from, to] = range.split("..");
  int64_t first = 0, last = 0;
  if (name.empty() || from.getAsInteger(10, first) || to.getAsInteger(10, last) || first < 1 ||
      last < first)
    return badInput("--sweep: expected NAME=FROM..TO with whole numbers from 1 on, got '{}'", text);
  std::vector<int64_t> values;
  for (int64_t value = first; value <= last; value *= 2) {
    values.push_back(value);
    if (value > last / 2)
      break;
  }
  return std::pair(name.str(), values);
}

namespace {

constexpr const char *kParts[] = {"GEMM",  "copy",    "sum",    "signal",
                                  "event", "message", "launch", "run"};

double partOf(const MachinePrediction &prediction, llvm::StringRef part) {
  for (const auto &[name, us] : prediction.parts)
    if (name == part)
      return us;
  return 0;
}

// -- The drawing: two panels, one over the other. --

constexpr double kWidth = 640, kPanel = 220, kLeft = 70, kRight = 20, kTop = 40;

struct Panel {
  const char *title;
  double top;
  double least, most; ///< of the values, on the panel's scale

  double y(double value) const {
    return top + kPanel - (value - least) / std::max(most - least, 1e-9) * kPanel;
  }
};

double xOf(size_t point, size_t points) {
  const double room = kWidth - kLeft - kRight;
  return kLeft + room * (points < 2 ? 0.5 : double(point) / double(points - 1));
}

std::string label(double x, double y, const char *anchor, const std::string &text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string axisOf(const Panel &panel, llvm::ArrayRef<double> ticks,
                   llvm::function_ref<std::string(double)> nameOf) {
  std::string svg = label(kLeft, panel.top - 8, "start", panel.title);
  for (double tick : ticks)
    svg += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
                       "stroke=\"#ccc\"/>\n",
                       kLeft, kWidth - kRight, panel.y(tick)) +
           label(kLeft - 6, panel.y(tick) + 4, "end", nameOf(tick));
  return svg;
}

std::string curve(const Sweep &sweep, const Panel &panel,
                  llvm::function_ref<double(const SweepPoint &)> valueOf) {
  std::string points, dots;
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    const double x = xOf(i, sweep.points.size()), y = panel.y(valueOf(sweep.points[i]));
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#2f6fd0\"/>\n", x, y);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#2f6fd0\" "
                     "stroke-width=\"2\"/>\n",
                     points) +
         dots;
}

double logTime(const SweepPoint &point) { return std::log10(point.prediction.us); }
double efficiencyOf(const SweepPoint &point) { return point.prediction.efficiency(); }

} // namespace

std::string toCsv(const Sweep &sweep) {
  const bool isOfRanks = sweep.name == "ranks";
  std::string csv = (isOfRanks ? "" : sweep.name + ",") + "ranks,us,E,gemms_us,others_us";
  for (const char *part : kParts)
    csv += fmt::format(",{}_us", part);
  csv += ",schedule\n";
  for (const SweepPoint &point : sweep.points) {
    const MachinePrediction &each = point.prediction;
    csv += isOfRanks ? "" : fmt::format("{},", point.value);
    csv += fmt::format("{},{:.2f},{:.4f},{:.2f},{:.2f}", each.ranks, each.us, each.efficiency(),
                       each.gemmsUs, each.othersUs);
    for (const char *part : kParts)
      csv += fmt::format(",{:.2f}", partOf(each, part));
    csv += ",\"" + point.schedule + "\"\n";
  }
  return csv;
}

std::string toSvg(const Sweep &sweep) {
  Panel time{"microseconds", kTop, 0, 0}, efficiency{"E", kTop + kPanel + 50, 0, 1};
  time.least = std::floor(logTime(*std::min_element(
      sweep.points.begin(), sweep.points.end(),
      [](const SweepPoint &a, const SweepPoint &b) { return logTime(a) < logTime(b); })));
  time.most = std::ceil(logTime(*std::max_element(
      sweep.points.begin(), sweep.points.end(),
      [](const SweepPoint &a, const SweepPoint &b) { return logTime(a) < logTime(b); })));
  const double height = efficiency.top + kPanel + 50;
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                  "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                  kWidth, height);
  svg += label(kLeft, 16, "start",
               markupText("@" + sweep.points.front().prediction.program + " on " + sweep.machine));
  std::vector<double> decades;
  for (double decade = time.least; decade <= time.most; ++decade)
    decades.push_back(decade);
  svg += axisOf(time, decades, [](double x) { return fmt::format("{:g}", std::pow(10, x)); });
  svg +=
      axisOf(efficiency, {0, 0.25, 0.5, 0.75, 1}, [](double x) { return fmt::format("{:g}", x); });
  svg += curve(sweep, time, logTime) + curve(sweep, efficiency, efficiencyOf);
  for (size_t i = 0; i < sweep.points.size(); ++i)
    svg += label(xOf(i, sweep.points.size()), efficiency.top + kPanel + 18, "middle",
                 std::to_string(sweep.points[i].value));
  svg += label((kLeft + kWidth - kRight) / 2, height - 10, "middle", markupText(sweep.name));
  return svg + "</svg>\n";
}

} // namespace braid
