//===- runtime/execute/tag.h - names an issued command ----------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Identifies an issued command in diagnostics and traces. The Plan must outlive its last run.
struct Tag {
  const Plan *plan = nullptr;
  uint32_t command = 0; ///< index into plan->commands
  uint32_t run = 0;     ///< the run's epoch
};

/// Returns `"%r = ..." (trip 3) at ring.braid:12:5, run 1`, or, if the command is unknown,
/// `a command that belongs to no plan, run 1`.
std::string describe(const Tag &tag);

} // namespace braid
