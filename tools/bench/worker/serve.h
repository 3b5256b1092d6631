//===- tools/bench/worker/serve.h - one rank of the job that times our rows -------------------===//
#pragma once

#include "tools/bench/flags.h"

namespace braid::tools {

/// Joins the job, and times what rank 0 is asked for until it is told to end. Gives the exit code.
int benchRank(const BenchFlags &flags);

} // namespace braid::tools
