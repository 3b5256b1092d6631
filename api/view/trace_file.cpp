//===- api/view/trace_file.cpp - what a trace says --------------------------------------------===//

#include "api/view/trace_file.h"

#include "ir/failure.h"
#include "runtime/json_mistake.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>

namespace braid::view {
namespace {

using nlohmann::json;

const json *member(const json &object, const char *name) {
  if (!object.is_object())
    return nullptr;
  auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string textAt(const json &object, const char *name) {
  const json *found = member(object, name);
  return found && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> numberAt(const json &object, const char *name) {
  const json *found = member(object, name);
  return found && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// A whole number of 31 bits.
std::optional<uint32_t> indexAt(const json &object, const char *name) {
  const json *found = member(object, name);
  if (!found || !found->is_number_unsigned() || found->get<uint64_t>() >> 31 != 0)
    return std::nullopt;
  return static_cast<uint32_t>(found->get<uint64_t>());
}

constexpr double kMostUs = 1e15; ///< thirty years

/// Nothing if it lacks something, or has times that no run has.
std::optional<TraceSlice> sliceOf(const json &event, size_t number) {
  const json *arguments = member(event, "args");
  if (!arguments)
    return std::nullopt;
  const std::optional<uint32_t> rank = indexAt(event, "pid"), run = indexAt(*arguments, "run"),
                                command = indexAt(*arguments, "command");
  const std::optional<double> begin = numberAt(event, "ts"), took = numberAt(event, "dur");
  if (!rank || !run || !command || !begin || !took || !(std::abs(*begin) <= kMostUs) ||
      !(*took >= 0 && *took <= kMostUs))
    return std::nullopt;
  return TraceSlice{*rank, *run, *command, *begin, *begin + *took, number};
}

std::string shown(const json &event) {
  return event.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 160);
}

} // namespace

static Result<TraceText> traceOf(const std::string &name, const json &root) {
  const json *events = member(root, "traceEvents");
  const json *other = member(root, "otherData");
  if (!events || !events->is_array())
    return badInput("{}: expected traceEvents", name);
  TraceText trace;
  if (other) {
    trace.program = textAt(*other, "program");
    trace.sendsMessages = textAt(*other, "transport") == "messages";
  }
  if (trace.program.empty())
    return badInput("{}: expected otherData with the program that ran, as 'braid run --trace' "
                    "writes it",
                    name);
  for (size_t i = 0; i < events->size(); ++i) {
    const json &event = (*events)[i];
    if (textAt(event, "ph") != "X")
      continue;
    const std::optional<TraceSlice> slice = sliceOf(event, i);
    if (!slice)
      return badInput("{}: traceEvents[{}]: expected pid, ts, dur, and args with run and command, "
                      "got {}",
                      name, i, shown(event));
    trace.slices.push_back(*slice);
  }
  if (trace.slices.empty())
    return badInput("{}: expected at least one command that ran", name);
  return trace;
}

Result<TraceText> parseTrace(const std::string &name, const std::string &text) {
  try {
    return traceOf(name, parsedJson<json>(text));
  } catch (const json::exception &error) {
    return badInput("{}:{}, as 'braid run --trace' writes it", name, jsonMistake(text, error));
  }
}

} // namespace braid::view
