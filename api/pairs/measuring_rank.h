//===- api/pairs/measuring_rank.h - being one rank of a job that measures ---------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Reads the job from standard input, joins it, measures, and writes lines of measurement.h to
/// `results`, a descriptor. Blocks. The failure is the job's.
Status measureAsRank(const BackendRegistry &backends, int results);

} // namespace braid
