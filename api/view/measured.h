//===- api/view/measured.h - pages about traces -----------------------------------------------===//
#pragma once

#include "api/view/of_plans.h"

#include <map>
#include <optional>

namespace braid::view {

/// A trace file of `braid run --trace`.
struct TraceFile {
  PrintedProgram program;
  /// The spans of each run from 1 on: [rank][command], in microseconds since the trace's start.
  std::map<uint32_t, std::vector<std::vector<Span>>> runs;
};

/// Returns BadInput, with `name` and the expectation, if `text` is not such a trace.
Result<TraceFile> readTrace(const std::string &name, const std::string &text);

/// Shows one run, by default the last. Returns BadInput if there is no such run.
Result<Page> measuredPage(const TraceFile &trace, std::optional<uint32_t> run);

/// Shows the times of both pages on top of each other, and their largest differences. Returns
/// BadInput if the pages are of different programs.
Result<Page> layOver(const Page &measured, Page predicted);

} // namespace braid::view
