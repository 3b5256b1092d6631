//===- api/view/trace_text.cpp - the contents of a trace file ---------------------------------===//

#include "api/view/trace_text.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/json.h"

#include <fmt/format.h>

#include <cmath>

namespace braid::view {
namespace {

const JsonValue *member(const JsonValue &value, const char *name) {
  const JsonObject *object = value.getAsObject();
  return object ? object->get(name) : nullptr;
}

std::string textAt(const JsonValue &object, const char *name) {
  const JsonValue *found = member(object, name);
  return found ? valueOr(found->getAsString(), "").str() : "";
}

/// Microseconds of at most thirty years.
std::optional<double> microsAt(const JsonValue &object, const char *name) {
  const JsonValue *found = member(object, name);
  const auto value = found ? found->getAsNumber() : JsonValue(nullptr).getAsNumber();
  if (!value || !(std::abs(*value) <= 1e15))
    return std::nullopt;
  return *value;
}

/// A whole number of 31 bits.
std::optional<uint32_t> indexAt(const JsonValue &object, const char *name) {
  const JsonValue *found = member(object, name);
  const auto value = found ? found->getAsInteger() : JsonValue(nullptr).getAsInteger();
  if (!value || *value < 0 || *value >> 31 != 0)
    return std::nullopt;
  return static_cast<uint32_t>(*value);
}

Result<TraceEvent> eventOf(const std::string &name, const JsonValue &event, size_t number) {
  const JsonValue *arguments = member(event, "args");
  const auto rank = indexAt(event, "pid");
  const auto run = arguments ? indexAt(*arguments, "run") : std::nullopt;
  const auto command = arguments ? indexAt(*arguments, "command") : std::nullopt;
  const auto begin = microsAt(event, "ts"), took = microsAt(event, "dur");
  if (!rank || !run || !command || !begin || !took || *took < 0)
    return badInput("{}: traceEvents[{}]: expected pid, ts, dur, and args with run and command, "
                    "got {}",
                    name, number,
                    printable(jsonText([&](JsonWriter &json) { json.value(event); }), 160));
  return TraceEvent{number, *rank, *run, *command, *begin, *took};
}

Result<TraceText> traceOf(const std::string &name, const JsonValue &root) {
  const JsonValue *events = member(root, "traceEvents"), *other = member(root, "otherData");
  if (!events || !events->getAsArray())
    return badInput("{}: expected traceEvents", name);
  TraceText trace;
  trace.program = other ? textAt(*other, "program") : "";
  if (trace.program.empty())
    return badInput("{}: expected otherData with the program that ran, as 'braid run --trace' "
                    "writes it",
                    name);
  trace.sendsMessages = textAt(*other, "transport") == "messages";
  const JsonArray &list = *events->getAsArray();
  for (size_t i = 0; i < list.size(); ++i)
    if (textAt(list[i], "ph") == "X")
      trace.events.push_back(BRAID_TRY(eventOf(name, list[i], i)));
  if (trace.events.empty())
    return badInput("{}: expected at least one command that ran", name);
  return trace;
}

} // namespace

Result<TraceText> parseTrace(const std::string &name, const std::string &text) {
  const Result<JsonValue> root = parseJson(text);
  if (!root)
    return badInput("{}:{}, as 'braid run --trace' writes it", name, root.status().message());
  return traceOf(name, *root);
}

} // namespace braid::view
