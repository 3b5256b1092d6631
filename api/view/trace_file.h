//===- api/view/trace_file.h - what a trace says ----------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid::view {

/// A command that ran; microseconds from the trace's beginning.
struct TraceSlice {
  uint32_t rank, run, command;
  double begin, end;
  size_t event; ///< which of traceEvents says it
};

/// A file of `braid run --trace`, which may have been written by anybody. Ranks and commands may
/// name nothing.
struct TraceText {
  std::string program; ///< that ran, as Plan::text
  bool sendsMessages = false;
  std::vector<TraceSlice> slices;
};

/// BadInput, naming `name` and what was expected, for what is no such trace.
Result<TraceText> parseTrace(const std::string &name, const std::string &text);

} // namespace braid::view
