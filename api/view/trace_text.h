//===- api/view/trace_text.h - the contents of a trace file, which anybody may have written ---===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid::view {

/// A command of a run. Times are in microseconds from the trace's beginning.
struct TraceEvent {
  size_t number; ///< in the file's traceEvents
  uint32_t rank, run, command;
  double begin, took;
};

/// A trace of `braid run --trace` as it is written, not compared with its program.
struct TraceText {
  std::string program; ///< as Plan::text
  bool sendsMessages = false;
  std::vector<TraceEvent> events; ///< at least one
};

/// BadInput, with `name` and what was expected, for a text that is no such trace.
Result<TraceText> parseTrace(const std::string &name, const std::string &text);

} // namespace braid::view
