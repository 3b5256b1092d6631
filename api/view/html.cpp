//===- api/view/html.cpp - writes a page as a self-contained HTML file ------------------------===//

#include "api/view/page.h"
#include "runtime/json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cmath>

namespace braid::view {
namespace {

/// The indices in page.js's KINDS, indexed by CommandKind.
constexpr int kKinds[] = {1, 0, 2, 2, 3, 4, 5, 6, 7, 7};
static_assert(std::size(kKinds) == static_cast<size_t>(CommandKind::Collective) + 1);

/// Rounds to three decimals (nanoseconds if the unit is µs). Returns -1 if the command did not run.
double timeNumber(double value) {
  return std::isfinite(value) ? std::round(value * 1000) / 1000 : -1;
}

void writeRank(JsonWriter &json, const Rank &rank) {
  json.object([&] {
    json.attribute("number", rank.number);
    json.attribute("streams", rank.streams);
    json.attributeList("commands", rank.commands, [](JsonWriter &list, const Command &command) {
      list.tuple(kKinds[static_cast<size_t>(command.kind)], command.stream, command.line,
                 command.run, command.peer, command.bytes, command.trips, command.cause.rank,
                 command.cause.command);
    });
  });
}

/// Writes the start and end time of each span to one flat array.
void writeSpans(JsonWriter &json, const std::vector<Span> &spans) {
  json.array([&] {
    for (const Span &span : spans) {
      json.value(timeNumber(span.begin));
      json.value(timeNumber(span.end));
    }
  });
}

void writeTiming(JsonWriter &json, const Timing &timing) {
  json.object([&] {
    json.attribute("name", timing.name);
    json.attribute("gap", timing.gap);
    json.attribute("total", timeNumber(timing.total));
    json.attributeList("spans", timing.spans, writeSpans);
    json.attributeList("path", timing.critical, [](JsonWriter &list, const PathStep &step) {
      list.tuple(step.command.rank, step.command.command, step.what, timeNumber(step.begin),
                 timeNumber(step.took));
    });
  });
}

/// Writes the data that page.js reads.
void writeData(JsonWriter &json, const Page &page) {
  json.object([&] {
    json.attribute("unit", page.unit);
    json.attribute("failure", page.isFailure);
    json.attribute("text", page.text);
    json.attributeList("ranks", page.ranks, writeRank);
    json.attributeList("timings", page.timings, writeTiming);
    json.attributeList("marks", page.marks, [](JsonWriter &list, const Mark &mark) {
      list.tuple(mark.command.rank, mark.command.command, mark.text, mark.line);
    });
    json.attribute("linked", page.areMarksLinked);
  });
}

/// Returns the page's data as JSON, escaped so that no "</script" can end the script element.
std::string dataText(const Page &page) {
  const std::string text = jsonText([&](JsonWriter &json) { writeData(json, page); });
  return llvm::join(llvm::split(text, '<'), "\\u003c");
}

} // namespace

std::string timeText(double time, const std::string &unit) {
  if (unit != "µs")
    return fmt::format("{:.0f} {}{}", time, unit, time == 1 ? "" : "s");
  return time >= 1e4 ? fmt::format("{:.1f} ms", time / 1e3) : fmt::format("{:.1f} µs", time);
}

std::string htmlText(const std::string &text) {
  std::string escaped;
  llvm::raw_string_ostream os(escaped);
  llvm::printHTMLEscaped(text, os);
  return os.str();
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
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}</body>
</html>
)";
  return fmt::format(kPage, fmt::arg("title", htmlText(title)), fmt::arg("style", kPageCss),
                     fmt::arg("body", body));
}

std::string toHtml(const Page &page) {
  std::string findings;
  for (const std::string &finding : page.findings)
    findings += "<li>" + htmlText(finding) + "</li>\n";
  return htmlPage(page.title,
                  fmt::format(fmt::runtime(kPageHtml),
                              fmt::arg("subtitle", htmlText(page.subtitle)),
                              fmt::arg("tone", page.isFailure ? "failure" : "fine"),
                              fmt::arg("findings", findings), fmt::arg("data", dataText(page)),
                              fmt::arg("script", kPageJs)));
}

} // namespace braid::view
