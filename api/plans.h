//===- api/plans.h - the Plans of all ranks ---------------------------------------------------===//
#pragma once

#include "api/compile.h"
#include "runtime/plan.h"

namespace braid {

/// Makes the Plan of every rank, in rank order. Located mistakes that only unrolling shows are in
/// the source's diags, and end it.
Result<std::vector<Plan>> makePlans(const Compiled &compiled);

} // namespace braid
