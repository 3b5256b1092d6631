//===- api/view/counterexample.h - pages about what the checker found -------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/check/checker.h"

namespace braid::view {

/// The commands at fault, in an order in which the program reaches them; without a violation, what
/// was proved. `report` is about `program.plans`.
Page counterexamplePage(const PrintedProgram &program, const CheckReport &report);

/// A timing in which every command takes one step and begins once what it waits for has ended.
/// If `queues` is not 0, streams share hardware queues as in Plan's order. A command that is never
/// reached did not run; one that is reached and never ends has only a begin.
Timing stepsOf(const Page &page, uint32_t queues);

} // namespace braid::view
