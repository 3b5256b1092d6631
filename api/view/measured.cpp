//===- api/view/measured.cpp - pages that show traces -----------------------------------------===//

#include "api/view/pages.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/json.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::view {
namespace {

using Spans = std::vector<std::vector<Span>>; ///< [rank][command]

/// A command in a trace. Times are in microseconds since the start of the trace.
struct TraceEvent {
  std::string where; ///< location in the trace, for messages
  uint32_t rank, run, command;
  double begin, took;
};

/// Returns a time in microseconds, or nullopt if it is missing or exceeds thirty years.
std::optional<double> microsAt(const JsonObject &object, const char *name) {
  const double value = valueOr(object.getNumber(name), std::nan(""));
  return std::abs(value) <= 1e15 ? std::optional(value) : std::nullopt;
}

/// Returns an integer of at most 31 bits, or nullopt if it is missing or out of range.
std::optional<uint32_t> indexAt(const JsonObject &object, const char *name) {
  const int64_t value = valueOr(object.getInteger(name), -1);
  return value >> 31 == 0 ? std::optional(static_cast<uint32_t>(value)) : std::nullopt;
}

Result<TraceEvent> eventOf(const std::string &where, const JsonObject &event) {
  const JsonObject arguments = valueOr(event.getObject("args"), JsonObject());
  const auto rank = indexAt(event, "pid"), run = indexAt(arguments, "run");
  const auto command = indexAt(arguments, "command");
  const auto begin = microsAt(event, "ts"), took = microsAt(event, "dur");
  if (rank && run && command && begin && took && *took >= 0)
    return TraceEvent{where, *rank, *run, *command, *begin, *took};
  const std::string got =
      jsonText([&](JsonWriter &json) { json.value(JsonValue(JsonObject(event))); });
  return badInput("{}: expected pid, ts, dur, and args with run and command, got {}", where,
                  printable(got, 160));
}

/// Returns the events that represent commands, or a failure if there are none.
Result<std::vector<TraceEvent>> eventsOf(const std::string &name, const JsonArray &array) {
  std::vector<TraceEvent> events;
  for (size_t i = 0; i < array.size(); ++i)
    if (const JsonObject *event = array[i].getAsObject())
      if (valueOr(event->getString("ph"), "") == "X")
        events.push_back(BRAID_TRY(eventOf(fmt::format("{}: traceEvents[{}]", name, i), *event)));
  if (events.empty())
    return badInput("{}: expected at least one executed command", name);
  return events;
}

Result<PrintedProgram> programOf(const std::string &name, const JsonObject &root) {
  const JsonObject other = valueOr(root.getObject("otherData"), JsonObject());
  const std::string text = valueOr(other.getString("program"), "").str();
  if (text.empty())
    return badInput(
        "{}: expected otherData to contain the program, as written by 'braid run --trace'", name);
  const bool sendsMessages = valueOr(other.getString("transport"), "") == "messages";
  return readAgain(name + ": otherData.program", text,
                   sendsMessages ? Transport::Messages : Transport::PeerMemory);
}

Status addEvent(const PrintedProgram &program, const TraceEvent &event, Spans &spans) {
  if (event.rank >= spans.size())
    return badInput("{}: expected a rank below {}, got {}", event.where, spans.size(), event.rank);
  std::vector<Span> &commands = spans[event.rank];
  if (event.command >= commands.size())
    return badInput("{}: expected command numbers for @{} to be below {}, got {}", event.where,
                    program.plans.front().program, commands.size(), event.command);
  Span &span = commands[event.command];
  if (!std::isnan(span.begin))
    return badInput("{}: expected each command once per run, but command {} of rank {} appears "
                    "more than once in run {}",
                    event.where, event.command, event.rank, event.run);
  span = {event.begin, event.begin + event.took};
  return Status::ok();
}

/// Describes the first line in which two programs differ, or states that their commands differ if
/// all lines are equal.
std::string differenceOf(const Page &measured, const Page &predicted) {
  llvm::SmallVector<llvm::StringRef> first, second;
  llvm::StringRef(measured.program).split(first, '\n');
  llvm::StringRef(predicted.program).split(second, '\n');
  for (const auto &[a, b] : llvm::zip(first, second))
    if (a != b)
      return fmt::format("'{}', got '{}'", printable(b.trim()), printable(a.trim()));
  return "the program text matches, but the commands differ; for example, a trace of a run "
         "with messages does not match a program with explicit transfers";
}

} // namespace

Result<Page> measuredPage(const std::string &name, const std::string &text) {
  const Result<JsonValue> root = parseJson(text);
  if (!root)
    return badInput("{}:{}, as written by 'braid run --trace'", name, root.status().message());
  const JsonObject object = valueOr(root->getAsObject(), JsonObject());
  const JsonArray *array = object.getArray("traceEvents");
  if (!array)
    return badInput("{}: expected a traceEvents list", name);
  const PrintedProgram program = BRAID_TRY(programOf(name, object));
  std::vector<TraceEvent> events = BRAID_TRY(eventsOf(name, *array));
  uint32_t last = 0;
  for (const TraceEvent &event : events)
    last = std::max(last, event.run);
  llvm::erase_if(events, [&](const TraceEvent &event) { return event.run != last; });
  const double start = std::min_element(events.begin(), events.end(), [](auto &a, auto &b) {
                         return a.begin < b.begin;
                       })->begin;
  Timing timing{.name = "measured", .gap = "idle"};
  for (const Plan &plan : program.plans)
    timing.spans.emplace_back(plan.commands.size());
  for (TraceEvent &event : events) {
    event.begin -= start;
    BRAID_TRY(addEvent(program, event, timing.spans));
  }
  Page page = pageOf(program, program.plans);
  findCriticalPath(page, timing);
  page.subtitle = fmt::format("measured on {} ranks: run {}", page.ranks.size(), last);
  page.findings.push_back(fmt::format("The run took {}; {}.", timeText(timing.total, page.unit),
                                      timing.critical.empty() ? "no command took measurable time"
                                                              : whatLimits(timing, page.unit)));
  page.timings.push_back(std::move(timing));
  return page;
}

/// Keeps the text of the predicted page, because that text also contains the fusion.
Result<Page> layOver(const Page &measured, Page predicted) {
  const bool areAlike =
      measured.program == predicted.program && measured.ranks.size() == predicted.ranks.size() &&
      llvm::all_of(llvm::zip(measured.ranks, predicted.ranks), [](const auto &pair) {
        return std::get<0>(pair).commands.size() == std::get<1>(pair).commands.size();
      });
  if (!areAlike)
    return badInput("expected the trace of this program: {}", differenceOf(measured, predicted));
  Page page = std::move(predicted);
  const Timing &run = measured.timings.front(), &prediction = page.timings.front();
  page.subtitle = measured.subtitle + ", above; " + page.subtitle + ", below";
  page.findings = {fmt::format("The run took {}; the prediction was {}.",
                               timeText(run.total, page.unit),
                               timeText(prediction.total, page.unit))};
  page.timings.insert(page.timings.begin(), run);
  return page;
}

} // namespace braid::view
