//===- tools/bench/rank.h - one rank of the job that times the rows of a shape ----------------===//
#pragma once

#include "tools/bench/flags.h"

namespace braid::tools {

/// Joins the job that `braid bench` has started, and times the rows of all shapes. Rank 0 prints a
/// table for each shape and writes the JSON. Returns the exit code. If a row is refused, the job
/// still times all other rows before it fails.
int benchRank(const BenchFlags &flags, const Backend &backend);

} // namespace braid::tools
