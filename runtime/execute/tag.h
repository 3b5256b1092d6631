//===- runtime/execute/tag.h - names an issued command ----------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Identifies an issued command in messages and traces. The Plan outlives its last run.
struct Tag {
  const Plan *plan = nullptr;
  uint32_t command = 0; ///< index into plan->commands
  uint32_t run = 0;     ///< the run's epoch
};

} // namespace braid
