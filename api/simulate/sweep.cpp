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

// -- The drawing: panels, one below the other. --

constexpr double kWidth = 640, kPanel = 180, kLeft = 70, kRight = 20, kTop = 56,
                 kBetweenPanels = 50;
constexpr const char *kColours[] = {"#2f6fd0", "#d9822b"};

using ValueOf = llvm::function_ref<double(const SweepPoint &)>;

struct Panel {
  const char *title;
  double top;
  std::vector<double> ticks; ///< on the panel's scale, from the least to the most

  double y(double value) const {
    const double least = ticks.front(), most = ticks.back();
    return top + kPanel - (value - least) / std::max(most - least, 1e-9) * kPanel;
  }
};

/// The values on the axis below, each once, from the left.
std::vector<int64_t> valuesOf(const Sweep &sweep) {
  std::vector<int64_t> values;
  for (const SweepPoint &point : sweep.points)
    values.push_back(point.value);
  llvm::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

double xOf(const std::vector<int64_t> &values, int64_t value) {
  const double room = kWidth - kLeft - kRight;
  const auto at = static_cast<double>(llvm::find(values, value) - values.begin());
  return kLeft + room * (values.size() < 2 ? 0.5 : at / static_cast<double>(values.size() - 1));
}

std::string label(double x, double y, const char *anchor, const std::string &text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

/// Powers of ten around all values, which are logarithms.
std::vector<double> decadesOf(const Sweep &sweep, ValueOf valueOf) {
  double least = valueOf(sweep.points.front()), most = least;
  for (const SweepPoint &point : sweep.points) {
    least = std::min(least, valueOf(point));
    most = std::max(most, valueOf(point));
  }
  std::vector<double> decades;
  for (double decade = std::floor(least); decade <= std::ceil(most); ++decade)
    decades.push_back(decade);
  return decades;
}

std::string axisOf(const Panel &panel, llvm::function_ref<std::string(double)> nameOf) {
  std::string svg = label(kLeft, panel.top - 8, "start", panel.title);
  for (double tick : panel.ticks)
    svg += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
                       "stroke=\"#ccc\"/>\n",
                       kLeft, kWidth - kRight, panel.y(tick)) +
           label(kLeft - 6, panel.y(tick) + 4, "end", nameOf(tick));
  return svg;
}

std::string curve(const Sweep &sweep, size_t number, const Panel &panel, ValueOf valueOf) {
  const std::vector<int64_t> values = valuesOf(sweep);
  const char *colour = kColours[number];
  std::string points, dots;
  for (const SweepPoint &point : sweep.points) {
    if (point.curve != number)
      continue;
    const double x = xOf(values, point.value), y = panel.y(valueOf(point));
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" "
                     "stroke-width=\"2\"/>\n",
                     points, colour) +
         dots;
}

std::string panelOf(const Sweep &sweep, const Panel &panel, ValueOf valueOf,
                    llvm::function_ref<std::string(double)> nameOf) {
  std::string svg = axisOf(panel, nameOf);
  for (size_t number = 0; number < std::max<size_t>(sweep.curves.size(), 1); ++number)
    svg += curve(sweep, number, panel, valueOf);
  return svg;
}

/// What the curves are, each in its colour.
std::string namesOf(const Sweep &sweep) {
  std::string svg;
  for (size_t number = 0; number < sweep.curves.size(); ++number)
    svg += fmt::format("<text x=\"{}\" y=\"34\" fill=\"{}\">{}</text>\n",
                       kLeft + static_cast<double>(number) * (kWidth - kLeft) / 2, kColours[number],
                       markupText(sweep.curves[number]));
  return svg;
}

std::string powerOfTen(double exponent) { return fmt::format("{:g}", std::pow(10, exponent)); }
double logTime(const SweepPoint &point) {
  return std::log10(std::max(point.prediction.us, 1e-3)); // a machine may take none
}
double logMemory(const SweepPoint &point) {
  constexpr double kMiB = 1 << 20;
  return std::log10(std::max(static_cast<double>(point.prediction.memoryBytes) / kMiB, 1e-3));
}
double efficiencyOf(const SweepPoint &point) { return point.prediction.efficiency(); }

} // namespace

std::string toCsv(const Sweep &sweep) {
  const bool isOfRanks = sweep.name == "ranks";
  std::string csv = (isOfRanks ? "" : sweep.name + ",") + "ranks,us,E,gemms_us,others_us";
  for (const char *part : kParts)
    csv += fmt::format(",{}_us", part);
  csv += ",memory_bytes,schedule\n";
  for (const SweepPoint &point : sweep.points) {
    const MachinePrediction &each = point.prediction;
    csv += isOfRanks ? "" : fmt::format("{},", point.value);
    csv += fmt::format("{},{:.2f},{:.4f},{:.2f},{:.2f}", each.ranks, each.us, each.efficiency(),
                       each.gemmsUs, each.othersUs);
    for (const char *part : kParts)
      csv += fmt::format(",{:.2f}", partOf(each, part));
    csv += fmt::format(",{},\"{}\"\n", each.memoryBytes, point.schedule);
  }
  return csv;
}

std::string toSvg(const Sweep &sweep) {
  constexpr double kStep = kPanel + kBetweenPanels, kHeight = kTop + 3 * kStep;
  const Panel time{"microseconds a run", kTop, decadesOf(sweep, logTime)},
      memory{"MiB of memory a rank", kTop + kStep, decadesOf(sweep, logMemory)},
      efficiency{"E", kTop + 2 * kStep, {0, 0.25, 0.5, 0.75, 1}};
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                  "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                  kWidth, kHeight);
  svg += label(kLeft, 16, "start",
               markupText("@" + sweep.points.front().prediction.program + " on " + sweep.machine));
  svg += namesOf(sweep);
  svg += panelOf(sweep, time, logTime, powerOfTen);
  svg += panelOf(sweep, memory, logMemory, powerOfTen);
  svg += panelOf(sweep, efficiency, efficiencyOf, [](double x) { return fmt::format("{:g}", x); });
  const std::vector<int64_t> values = valuesOf(sweep);
  for (int64_t value : values)
    svg += label(xOf(values, value), efficiency.top + kPanel + 18, "middle", std::to_string(value));
  svg += label((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", markupText(sweep.name));
  return svg + "</svg>\n";
}

} // namespace braid
