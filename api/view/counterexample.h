//===- api/view/counterexample.h - pages about the checker's results --------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/check/checker.h"

namespace braid::view {

/// Shows the commands of the violation, in an order in which the program reaches them, or, without
/// a violation, what was proved. `report` must be about `program.plans`.
Page counterexamplePage(const PrintedProgram &program, const CheckReport &report);

/// Returns a timing in which every command takes one step, and begins after the commands that it
/// waits for. If `queues` is not 0, streams share hardware queues in the Plan's order. A command
/// that is not reached did not run; one that is reached but never ends has only a begin.
Timing stepsOf(const Page &page, uint32_t queues);

} // namespace braid::view
