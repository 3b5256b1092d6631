//===- api/view/html.cpp - a page as one file -------------------------------------------------===//

#include "api/text/markup.h"
#include "api/view/critical_path.h"
#include "api/view/page.h"
#include "api/view/page_parts.h"
#include "ir/text_numbers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace braid::view {
namespace {

using Json = nlohmann::ordered_json;

/// Three digits behind the point: a nanosecond. What did not run is -1.
Json timeJson(double value) {
  if (!std::isfinite(value))
    return -1;
  const double rounded = std::round(value * 1000) / 1000;
  if (rounded == std::floor(rounded) && std::abs(rounded) < 1e15)
    return static_cast<int64_t>(rounded);
  return rounded;
}

Json refJson(CommandRef ref) { return {ref.rank, ref.command}; }

/// Columns, because thousands of commands are many names. A rank's commands: kinds as digits of one
/// text; streams, lines, runs, peers and bytes; trips as numbers of texts; causes in pairs.
class DataWriter {
public:
  explicit DataWriter(const Page &page) : page_(page) {}

  Json write() {
    Json ranks = Json::array(), timings = Json::array(), marks = Json::array();
    for (const Rank &rank : page_.ranks)
      ranks.push_back(rankJson(rank));
    for (const Timing &timing : page_.timings)
      timings.push_back(timingJson(timing));
    for (const Mark &mark : page_.marks)
      marks.push_back({refJson(mark.command), mark.text, mark.line});
    return {{"unit", page_.unit},
            {"failure", page_.isFailure},
            {"text", page_.text},
            {"ranks", ranks},
            {"timings", timings},
            {"marks", marks},
            {"relation", static_cast<int>(page_.relation)},
            {"trips", trips_.texts()}};
  }

private:
  Json rankJson(const Rank &rank) {
    std::string kinds;
    Json streams = Json::array(), lines = Json::array(), runs = Json::array(),
         peers = Json::array(), bytes = Json::array(), trips = Json::array(),
         causes = Json::array();
    for (const Command &command : rank.commands) {
      kinds += static_cast<char>('0' + static_cast<int>(command.kind));
      streams.push_back(command.stream);
      lines.push_back(command.line);
      runs.push_back(command.run);
      peers.push_back(command.peer);
      bytes.push_back(command.bytes);
      trips.push_back(trips_.number(command.trips));
      causes.push_back(command.cause.rank);
      causes.push_back(command.cause.isValid() ? command.cause.command : 0);
    }
    return {{"n", rank.numbers}, {"names", rank.streams},
            {"k", kinds},        {"s", streams},
            {"l", lines},        {"r", runs},
            {"p", peers},        {"b", bytes},
            {"t", trips},        {"c", causes}};
  }

  static Json timingJson(const Timing &timing) {
    Json spans = Json::array(), path = Json::array(), parts = Json::array();
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
    for (const auto &[what, took] : partsOf(timing))
      parts.push_back({what, timeJson(took)});
    return {{"name", timing.name}, {"gap", timing.gap}, {"total", timeJson(timing.total)},
            {"spans", spans},      {"path", path},      {"parts", parts}};
  }

  const Page &page_;
  TextNumbers trips_;
};

std::string itemsOf(const std::vector<std::string> &sentences) {
  std::string items;
  for (const std::string &sentence : sentences)
    items += "<li>" + markupText(sentence) + "</li>\n";
  return items;
}

/// Puts values where the page says {{name}}. What a value says is not looked at again.
std::string fill(llvm::StringRef page, const std::map<llvm::StringRef, std::string> &values) {
  std::string out;
  while (!page.empty()) {
    const auto [before, rest] = page.split("{{");
    out += before;
    const auto [name, after] = rest.split("}}");
    const auto found = values.find(name);
    if (found != values.end())
      out += found->second;
    page = after;
  }
  return out;
}

} // namespace

std::string timeText(double time, const std::string &unit) {
  if (unit != "µs")
    return fmt::format("{:.0f} {}{}", time, unit, time == 1 ? "" : "s");
  return time >= 1e4 ? fmt::format("{:.1f} ms", time / 1e3) : fmt::format("{:.1f} µs", time);
}

std::string toHtml(const Page &page) {
  return fill(kPageHtml, {{"title", markupText(page.title)},
                          {"heading", markupText(page.title)},
                          {"subtitle", markupText(page.subtitle)},
                          {"tone", page.isFailure ? "failure" : "fine"},
                          {"findings", itemsOf(page.findings)},
                          {"figure", relationSvg(page)},
                          {"style", kPageCss},
                          {"script", kPageJs},
                          {"data", scriptText(DataWriter(page).write())}});
}

namespace {

/// Whether two ranks do the same at the same times, on the page's scale.
bool areAlike(const Page &page, size_t a, size_t b) {
  const Rank &first = page.ranks[a], &second = page.ranks[b];
  if (first.streams != second.streams || first.commands.size() != second.commands.size())
    return false;
  for (size_t i = 0; i < first.commands.size(); ++i) {
    const Command &x = first.commands[i], &y = second.commands[i];
    if (std::tie(x.kind, x.stream, x.line, x.run, x.bytes, x.trips) !=
            std::tie(y.kind, y.stream, y.line, y.run, y.bytes, y.trips) ||
        x.cause.isValid() != y.cause.isValid()) // peers differ: each has its own neighbour
      return false;
    for (const Timing &timing : page.timings) {
      const Span &s = timing.spans[a][i], &t = timing.spans[b][i];
      const double most = timing.total / 100;
      if (std::isnan(s.end) != std::isnan(t.end) || std::abs(s.begin - t.begin) > most ||
          std::abs(s.end - t.end) > most)
        return false;
    }
  }
  return true;
}

} // namespace

void joinAlikeRanks(Page &page, size_t most) {
  if (page.ranks.size() <= most)
    return;
  std::vector<size_t> kept;                         // ranks that stand for themselves and others
  std::vector<int32_t> place(page.ranks.size(), 0); // of each rank, in `kept`
  for (size_t rank = 0; rank < page.ranks.size(); ++rank) {
    const auto like =
        llvm::find_if(kept, [&](size_t other) { return areAlike(page, other, rank); });
    place[rank] = static_cast<int32_t>(like - kept.begin());
    if (like == kept.end())
      kept.push_back(rank);
    else
      llvm::append_range(page.ranks[*like].numbers, page.ranks[rank].numbers);
  }
  auto move = [&](CommandRef &ref) {
    if (ref.isValid())
      ref.rank = place[static_cast<size_t>(ref.rank)];
  };
  std::vector<Rank> ranks;
  for (size_t rank : kept)
    ranks.push_back(std::move(page.ranks[rank]));
  page.ranks = std::move(ranks);
  for (Rank &rank : page.ranks)
    for (Command &command : rank.commands)
      move(command.cause);
  for (Timing &timing : page.timings) {
    std::vector<std::vector<Span>> spans;
    for (size_t rank : kept)
      spans.push_back(std::move(timing.spans[rank]));
    timing.spans = std::move(spans);
    for (PathStep &step : timing.critical)
      move(step.command);
  }
  for (Mark &mark : page.marks)
    move(mark.command);
}

} // namespace braid::view
