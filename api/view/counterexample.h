//===- api/view/counterexample.h - pages about what the checker found -------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/check/checker.h"

namespace braid::view {

/// The commands at fault, in an order in which the program gets there. `report` is of
/// `program.plans`. Without a violation, what was proved.
Page counterexamplePage(const PrintedProgram &program, const CheckReport &report);

} // namespace braid::view
