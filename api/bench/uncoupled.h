//===- api/bench/uncoupled.h - the GEMMs and the transfers of a Plan without dependencies -----===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Returns a Plan of both parts of `plan` (plan_parts.h) without dependencies between them: a bound
/// for any schedule. Transfers have separate streams, which start and end with the run.
Plan uncoupled(const Plan &plan);

} // namespace braid
