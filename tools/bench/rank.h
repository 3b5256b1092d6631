//===- tools/bench/rank.h - one rank of the job that times the rows of a shape ----------------===//
#pragma once

#include "tools/bench/flags.h"

namespace braid::tools {

/// Joins the job that this command has started, and times the rows of one shape. Rank 0 prints the
/// table, and writes to `--rank-rows`: on the first line the exit code of the first refused row, on
/// the second the device, then each row's JSON on one line. Returns the exit code.
int benchRank(const BenchFlags &flags, const Backend &backend);

} // namespace braid::tools
