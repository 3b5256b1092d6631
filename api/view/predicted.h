//===- api/view/predicted.h - pages about predictions -----------------------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/simulate/simulator.h"

namespace braid::view {

/// Shows one run of a program on the machine of a cost model. Groups and collectives with unknown
/// costs are shown as the signals and copies that move their data. Fails like simulate().
Result<Page> predictedPage(const PrintedProgram &program, const CostModel &model,
                           const SimulationOptions &options);

/// Returns a simulation's times of the page's commands, with the critical path.
Timing predictedTiming(const Page &page, const Simulation &simulation);

} // namespace braid::view
