//===- api/view/pages.h - the pages of `braid view` -------------------------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/check/checker.h"
#include "runtime/simulate/simulator.h"

namespace braid::view {

/// Shows one run of a program on the machine of a cost model. Groups and collectives with unknown
/// costs are shown as the signals and copies that move their data. Fails like simulate().
Result<Page> predictedPage(const PrintedProgram &program, const CostModel &model,
                           const SimulationOptions &options);

/// Shows the last run of a trace of `braid run --trace`. Returns BadInput, with `name` and the
/// expectation, if `text` is not such a trace.
Result<Page> measuredPage(const std::string &name, const std::string &text);

/// Shows the times of both pages on top of each other. Returns BadInput if the pages are of
/// different programs.
Result<Page> layOver(const Page &measured, Page predicted);

/// Shows the commands of the violation, in an order in which the program reaches them, or, without
/// a violation, what was proved. `report` must be about `program.plans`.
Page counterexamplePage(const PrintedProgram &program, const CheckReport &report);

/// Returns a timing in which every command takes one step, and begins after the commands that it
/// waits for. If `queues` is not 0, streams share hardware queues in the Plan's order. A command
/// that is not reached did not run; one that is reached but never ends has only a begin.
Timing stepsOf(const Page &page, uint32_t queues);

/// Shows the lines of the flight records of a failed job, with the first cause on top. There is at
/// least one line.
Page recordedPage(const std::vector<std::string> &records);

} // namespace braid::view
