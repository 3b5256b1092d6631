//===- api/view/trace_text.cpp - the contents of a trace file ---------------------------------===//

#include "api/view/trace_text.h"

#include "ir/failure.h"
#include "runtime/json_mistake.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace braid::view {
namespace {

using nlohmann::json;

const json *member(const json &object, const char *name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

std::string textAt(const json &object, const char *name) {
  const json *found = member(object, name);
  return found && found->is_string() ? found->get<std::string>() : "";
}

/// Microseconds of at most thirty years.
std::optional<double> microsAt(const json &object, const char *name) {
  const json *found = member(object, name);
  if (!found || !found->is_number() || !(std::abs(found->get<double>()) <= 1e15))
    return std::nullopt;
  return found->get<double>();
}

/// A whole number of 31 bits.
std::optional<uint32_t> indexAt(const json &object, const char *name) {
  const json *found = member(object, name);
  if (!found || !found->is_number_unsigned() || found->get<uint64_t>() >> 31 != 0)
    return std::nullopt;
  return static_cast<uint32_t>(found->get<uint64_t>());
}

Result<TraceEvent> eventOf(const std::string &name, const json &event, size_t number) {
  const json *arguments = member(event, "args");
  const auto rank = indexAt(event, "pid");
  const auto run = arguments ? indexAt(*arguments, "run") : std::nullopt;
  const auto command = arguments ? indexAt(*arguments, "command") : std::nullopt;
  const auto begin = microsAt(event, "ts"), took = microsAt(event, "dur");
  if (!rank || !run || !command || !begin || !took || *took < 0)
    return badInput("{}: traceEvents[{}]: expected pid, ts, dur, and args with run and command, "
                    "got {}",
                    name, number,
                    event.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 160));
  return TraceEvent{number, *rank, *run, *command, *begin, *took};
}

Result<TraceText> traceOf(const std::string &name, const json &root) {
  const json *events = member(root, "traceEvents"), *other = member(root, "otherData");
  if (!events || !events->is_array())
    return badInput("{}: expected traceEvents", name);
  TraceText trace;
  trace.program = other ? textAt(*other, "program") : "";
  if (trace.program.empty())
    return badInput("{}: expected otherData with the program that ran, as 'braid run --trace' "
                    "writes it",
                    name);
  trace.sendsMessages = textAt(*other, "transport") == "messages";
  for (size_t i = 0; i < events->size(); ++i)
    if (textAt((*events)[i], "ph") == "X")
      trace.events.push_back(BRAID_TRY(eventOf(name, (*events)[i], i)));
  if (trace.events.empty())
    return badInput("{}: expected at least one command that ran", name);
  return trace;
}

} // namespace

Result<TraceText> parseTrace(const std::string &name, const std::string &text) {
  try {
    return traceOf(name, parsedJson<json>(text));
  } catch (const json::exception &error) {
    return badInput("{}:{}, as 'braid run --trace' writes it", name, jsonMistake(text, error));
  }
}

} // namespace braid::view
