//===- api/bench/uncoupled.h - the GEMMs and the transfers of a Plan at the same time ---------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Both parts of a Plan (plan_parts.h) at once, where neither waits for the other: what the machine
/// leaves to any schedule. Transfers have their own streams, which begin and end with the run.
Plan uncoupled(const Plan &plan);

} // namespace braid
