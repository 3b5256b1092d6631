//===- api/pairs/show_report.cpp - formats a pair report as text, JSON and HTML ---------------===//

#include "api/pairs/pair_report.h"
#include "api/view/page.h"
#include "ir/printable.h"
#include "runtime/json.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// Returns the fastest path's point at the largest size (for latency, the smallest), or null.
const PathPoint *shownPoint(const PairRow &row, bool isLatency) {
  const std::optional<Path> path = row.fastest();
  return !path ? nullptr : isLatency ? &row.on(*path).points.front() : &row.on(*path).points.back();
}

/// Formats a table with a row for each source and a column for each destination. `head` formats a
/// device number, and `cell` formats a pair, which is null on the diagonal.
std::string tableOf(const PairReport &report, const std::string &corner, const char *newRow,
                    llvm::function_ref<std::string(int64_t number)> head,
                    llvm::function_ref<std::string(const PairRow *row)> cell) {
  std::string table = corner;
  const PairRow *next = report.rows.data();
  for (const MeasuredDevice &device : report.devices)
    table += head(device.number);
  for (size_t source = 0; source < report.devices.size(); ++source) {
    table += newRow + head(report.devices[source].number);
    for (size_t other = 0; other < report.devices.size(); ++other)
      table += cell(source == other ? nullptr : next++);
  }
  return table;
}

std::string matrixText(const PairReport &report, bool isLatency) {
  int64_t bytes = 0;
  const auto right = [](auto text) { return fmt::format("{:>8}", text); };
  const std::string lines = tableOf(report, right(""), "\n", right, [&](const PairRow *row) {
    const PathPoint *point = row ? shownPoint(*row, isLatency) : nullptr;
    const double figure = !point ? 0 : isLatency ? point->latencyUs : point->GBps;
    bytes = std::max(bytes, point ? point->bytes : 0);
    return right(figure > 0 ? figureText(figure) : "-");
  });
  if (bytes == 0)
    return "";
  return fmt::format("\n{} at {}, over the fastest path of each pair; rows are senders\n{}\n",
                     isLatency ? "latency in us" : "bandwidth in GB/s", sizeText(bytes), lines);
}

/// Formats the verdicts. Lists each reason why a path is unavailable only once.
std::string verdictText(const PairReport &report) {
  std::string text;
  std::map<std::pair<Path, std::string>, int64_t> lacks;
  for (const PairRow &row : report.rows)
    for (Path path : kAllPaths) {
      const PathReport &on = row.on(path);
      if (on.verdict == Verdict::Unavailable)
        ++lacks[{path, on.reason}];
      if (on.verdict >= Verdict::Slow)
        text += fmt::format("  {} -> {}  {:<8}{:<12}{}\n", row.source, row.destination,
                            name(on.verdict).str(), name(path).str(), printable(on.reason));
    }
  const auto fine =
      llvm::count_if(report.rows, [](const PairRow &row) { return row.verdict() == Verdict::Ok; });
  text += fmt::format("  {} of {} pairs are ok\n", fine, report.rows.size());
  for (const auto &[lack, pairs] : lacks)
    text += fmt::format("  {} is unavailable for {} of {} pairs: {}\n", name(lack.first).str(),
                        pairs, report.rows.size(), printable(lack.second));
  return text;
}

void writePath(JsonWriter &json, const PathReport &path) {
  json.attribute("verdict", name(path.verdict));
  json.attribute("reason", path.reason);
  if (path.wrong)
    json.attributeObject("wrong", [&] {
      json.attribute("bytes", path.wrong->bytes);
      json.attribute("offset", path.wrong->offset);
      json.attribute("expected", path.wrong->expected);
      json.attribute("got", path.wrong->got);
    });
  json.attributeList("points", path.points, [](JsonWriter &list, const PathPoint &point) {
    list.tuple(point.bytes, point.latencyUs, point.GBps); // bytes, microseconds, GB/s
  });
}

void writePair(JsonWriter &json, const PairRow &row) {
  json.attribute("source", row.source);
  json.attribute("destination", row.destination);
  json.attribute("verdict", name(row.verdict()));
  json.attribute("link", name(row.link.kind));
  json.attribute("nominal_GBps", row.link.nominalGBps);
  json.attributeObject("paths", [&] {
    for (Path path : kAllPaths)
      if (row.on(path).verdict != Verdict::NotMeasured)
        json.attributeObject(name(path), [&] { writePath(json, row.on(path)); });
  });
}

void writeReport(JsonWriter &json, const PairReport &report) {
  json.attribute("backend", report.backend);
  json.attribute("hostname", report.hostname);
  json.attributeList("devices", report.devices, [](JsonWriter &list, const MeasuredDevice &device) {
    list.object([&] {
      list.attribute("number", device.number);
      list.attribute("name", device.name);
      list.attribute("uuid", device.uuid);
    });
  });
  json.attributeList("pairs", report.rows, [](JsonWriter &list, const PairRow &row) {
    list.object([&] { writePair(list, row); });
  });
}

constexpr const char *kStyle = R"(<style>
td, th { min-width: 3.5em; padding: .4em; text-align: right; } td { color: #222; }
.slow { background: #fdae4d; } .hung, .crashed, .wrong { background: #d7301f; color: #fff; }
</style>)";

} // namespace

std::string reportText(const PairReport &report) {
  std::string text = fmt::format("{} devices of {}, backend {}\n", report.devices.size(),
                                 printable(report.hostname), report.backend);
  for (const MeasuredDevice &device : report.devices)
    text += fmt::format("  {} {}\n", device.number, printable(device.name + " " + device.uuid));
  return text + matrixText(report, false) + matrixText(report, true) + "\nverdicts\n" +
         verdictText(report);
}

std::string reportJson(const PairReport &report) {
  const auto write = [&](JsonWriter &json) { json.object([&] { writeReport(json, report); }); };
  return jsonText(write, 1) + "\n";
}

/// Faster pairs are bluer; if a pair is not ok, its verdict sets the color.
std::string reportHtml(const PairReport &report) {
  double most = 1e-9;
  for (const PairRow &row : report.rows)
    if (const PathPoint *point = shownPoint(row, false))
      most = std::max(most, point->GBps);
  const auto head = [](int64_t number) { return fmt::format("<th>{}</th>", number); };
  const auto cell = [&](const PairRow *row) -> std::string {
    if (!row)
      return "<td></td>";
    const PathPoint *point = shownPoint(*row, false);
    const double GBps = point ? point->GBps : 0;
    return fmt::format(
        "<td class=\"{0}\" title=\"{0}\"{1}>{2}</td>", name(row->verdict()).str(),
        row->verdict() > Verdict::Ok
            ? ""
            : fmt::format(" style=\"background:hsl(210 80% {:.0f}%)\"", 97 - 35 * GBps / most),
        point ? figureText(GBps) : "-");
  };
  return view::htmlPage("Pairs of devices",
                        fmt::format("{}\n<p>GB/s over the fastest path; rows are senders.</p>\n"
                                    "<table>{}</tr></table>\n<pre>{}</pre>\n",
                                    kStyle,
                                    tableOf(report, "<tr><th></th>", "</tr>\n<tr>", head, cell),
                                    view::htmlText(reportText(report))));
}

} // namespace braid
