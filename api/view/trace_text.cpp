//===- api/view/trace_text.cpp - parses a trace file ------------------------------------------===//

#include "api/view/trace_text.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/json.h"

#include <fmt/format.h>

#include <cmath>

namespace braid::view {
namespace {

/// Returns microseconds, at most thirty years.
std::optional<double> microsAt(const JsonObject &object, const char *name) {
  const double value = valueOr(object.getNumber(name), std::nan(""));
  return std::abs(value) <= 1e15 ? std::optional(value) : std::nullopt;
}

/// Returns an integer of at most 31 bits.
std::optional<uint32_t> indexAt(const JsonObject &object, const char *name) {
  const int64_t value = valueOr(object.getInteger(name), -1);
  return value >> 31 == 0 ? std::optional(static_cast<uint32_t>(value)) : std::nullopt;
}

Result<TraceEvent> eventOf(const std::string &name, const JsonObject &event, size_t number) {
  const JsonObject *found = event.getObject("args");
  const JsonObject arguments = found ? *found : JsonObject();
  const auto rank = indexAt(event, "pid"), run = indexAt(arguments, "run");
  const auto command = indexAt(arguments, "command");
  const auto begin = microsAt(event, "ts"), took = microsAt(event, "dur");
  if (rank && run && command && begin && took && *took >= 0)
    return TraceEvent{number, *rank, *run, *command, *begin, *took};
  const std::string got =
      jsonText([&](JsonWriter &json) { json.value(JsonValue(JsonObject(event))); });
  return badInput("{}: traceEvents[{}]: expected pid, ts, dur, and args with run and command, "
                  "got {}",
                  name, number, printable(got, 160));
}

Result<TraceText> traceOf(const std::string &name, const JsonObject &root) {
  const JsonArray *events = root.getArray("traceEvents");
  const JsonObject *other = root.getObject("otherData");
  if (!events)
    return badInput("{}: expected traceEvents", name);
  TraceText trace;
  if (other)
    trace.program = valueOr(other->getString("program"), "").str();
  if (trace.program.empty())
    return badInput("{}: expected otherData with the program that ran, as 'braid run --trace' "
                    "writes it",
                    name);
  trace.sendsMessages = valueOr(other->getString("transport"), "") == "messages";
  for (size_t i = 0; i < events->size(); ++i)
    if (const JsonObject *event = (*events)[i].getAsObject())
      if (valueOr(event->getString("ph"), "") == "X")
        trace.events.push_back(BRAID_TRY(eventOf(name, *event, i)));
  if (trace.events.empty())
    return badInput("{}: expected at least one command that ran", name);
  return trace;
}

} // namespace

Result<TraceText> parseTrace(const std::string &name, const std::string &text) {
  const Result<JsonValue> root = parseJson(text);
  if (!root)
    return badInput("{}:{}, as 'braid run --trace' writes it", name, root.status().message());
  const JsonObject *object = root->getAsObject();
  return traceOf(name, object ? *object : JsonObject());
}

} // namespace braid::view
