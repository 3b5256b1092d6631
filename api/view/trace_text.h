//===- api/view/trace_text.h - parses a trace file --------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid::view {

/// A command of a run. Times are in microseconds since the trace's start.
struct TraceEvent {
  size_t number; ///< index in the file's traceEvents
  uint32_t rank, run, command;
  double begin, took;
};

/// The contents of a trace of `braid run --trace`, not yet compared with its program.
struct TraceText {
  std::string program; ///< as Plan::text
  bool sendsMessages = false;
  std::vector<TraceEvent> events; ///< at least one
};

/// Returns BadInput, with `name` and the expectation, if `text` is not such a trace.
Result<TraceText> parseTrace(const std::string &name, const std::string &text);

} // namespace braid::view
