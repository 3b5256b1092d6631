//===- api/bench/uncoupled.h - the GEMMs and the transfers of a Plan without dependencies -----===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Returns a Plan with the GEMMs and the transfers of `plan` (see plan_parts.h), but no
/// dependencies between them. Transfers use separate streams, which start and end with the run.
Plan uncoupled(const Plan &plan);

} // namespace braid
