//===- api/view/measured.h - when commands ran, by a trace ------------------------------------===//
#pragma once

#include "api/view/of_plans.h"

#include <map>
#include <optional>

namespace braid::view {

/// A trace of `braid run --trace`.
struct TraceFile {
  PrintedProgram program;
  /// The spans of each run, from 1 on: [rank][command], microseconds from the trace's beginning.
  std::map<uint32_t, std::vector<std::vector<Span>>> runs;
};

/// BadInput, with `name` and what was expected, for a text that is no such trace.
Result<TraceFile> readTrace(const std::string &name, const std::string &text);

/// One run of it, the last by default. BadInput if it has no such run.
Result<Page> measuredPage(const TraceFile &trace, std::optional<uint32_t> run);

/// The times of both over one another, and where they differ most. BadInput if they are of
/// different programs.
Result<Page> layOver(const Page &measured, Page predicted);

} // namespace braid::view
