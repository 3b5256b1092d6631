//===- api/view/html.cpp - a page as one file -------------------------------------------------===//

#include "api/text/markup.h"
#include "api/view/page.h"
#include "api/view/page_parts.h"

#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>

namespace braid::view {
namespace {

using Json = nlohmann::ordered_json;

/// Rounded to 1/1000, a nanosecond. -1 for what did not run.
Json timeJson(double value) {
  if (!std::isfinite(value))
    return -1;
  const double rounded = std::round(value * 1000) / 1000;
  if (rounded == std::floor(rounded) && std::abs(rounded) < 1e15)
    return static_cast<int64_t>(rounded);
  return rounded;
}

Json rankJson(const Rank &rank) {
  Json commands = Json::array();
  for (const Command &command : rank.commands)
    commands.push_back({static_cast<int>(command.kind), command.stream, command.line, command.run,
                        command.peer, command.bytes, command.trips, command.cause.rank,
                        command.cause.command});
  return {{"number", rank.number}, {"streams", rank.streams}, {"commands", std::move(commands)}};
}

Json timingJson(const Timing &timing) {
  Json spans = Json::array(), path = Json::array();
  for (const std::vector<Span> &rank : timing.spans) {
    Json numbers = Json::array();
    for (const Span &span : rank) {
      numbers.push_back(timeJson(span.begin));
      numbers.push_back(timeJson(span.end));
    }
    spans.push_back(std::move(numbers));
  }
  for (const PathStep &step : timing.critical)
    path.push_back({step.command.rank, step.command.command, step.what, timeJson(step.begin),
                    timeJson(step.took)});
  return {{"name", timing.name},
          {"gap", timing.gap},
          {"total", timeJson(timing.total)},
          {"spans", std::move(spans)},
          {"path", std::move(path)}};
}

/// What page.js reads.
Json dataJson(const Page &page) {
  Json ranks = Json::array(), timings = Json::array(), marks = Json::array();
  for (const Rank &rank : page.ranks)
    ranks.push_back(rankJson(rank));
  for (const Timing &timing : page.timings)
    timings.push_back(timingJson(timing));
  for (const Mark &mark : page.marks)
    marks.push_back({mark.command.rank, mark.command.command, mark.text, mark.line});
  return {{"unit", page.unit},
          {"failure", page.isFailure},
          {"text", page.text},
          {"ranks", std::move(ranks)},
          {"timings", timings},
          {"marks", std::move(marks)},
          {"linked", page.areMarksLinked}};
}

/// Replaces each {{name}} in a template. Values are not searched for names.
std::string fill(llvm::StringRef text, const std::map<llvm::StringRef, std::string> &values) {
  std::string filled;
  while (!text.empty()) {
    const auto [before, rest] = text.split("{{");
    const auto [name, after] = rest.split("}}");
    filled += before;
    if (const auto found = values.find(name); found != values.end())
      filled += found->second;
    text = after;
  }
  return filled;
}

} // namespace

Kind kindNamed(llvm::StringRef name) {
  return llvm::StringSwitch<Kind>(name)
      .Case("copy", Kind::Copy)
      .Case("matmul", Kind::Gemm)
      .Cases("add", "sum", "pointwise", Kind::Compute)
      .Case("signal", Kind::Signal)
      .Case("await", Kind::Await)
      .Case("record", Kind::Record)
      .Case("wait_event", Kind::WaitEvent)
      .Default(Kind::Message);
}

std::string timeText(double time, const std::string &unit) {
  if (unit != "µs")
    return fmt::format("{:.0f} {}{}", time, unit, time == 1 ? "" : "s");
  return time >= 1e4 ? fmt::format("{:.1f} ms", time / 1e3) : fmt::format("{:.1f} µs", time);
}

std::string htmlPage(const std::string &title, const std::string &body) {
  constexpr const char *kPage = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{{title}}</title>
<style>
{{style}}</style>
</head>
<body>
<h1>{{title}}</h1>
{{body}}</body>
</html>
)";
  return fill(kPage, {{"title", markupText(title)}, {"style", kPageCss}, {"body", body}});
}

std::string toHtml(const Page &page) {
  std::string findings;
  for (const std::string &finding : page.findings)
    findings += "<li>" + markupText(finding) + "</li>\n";
  return htmlPage(page.title, fill(kPageHtml, {{"subtitle", markupText(page.subtitle)},
                                               {"tone", page.isFailure ? "failure" : "fine"},
                                               {"findings", findings},
                                               {"data", scriptText(dataJson(page))},
                                               {"script", kPageJs}}));
}

} // namespace braid::view
