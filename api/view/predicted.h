//===- api/view/predicted.h - when a model says that commands run -----------------------------===//
#pragma once

#include "api/view/of_plans.h"
#include "runtime/simulate/simulator.h"

namespace braid::view {

/// One run of a program on the machine of a cost model. Groups and collectives whose cost
/// it does not know are shown with the signals and copies that move their data. As simulate()
/// fails.
Result<Page> predictedPage(const PrintedProgram &program, const CostModel &model,
                           const SimulationOptions &options);

/// A simulation's times of the page's commands, with the critical path.
Timing predictedTiming(const Page &page, const Simulation &simulation);

} // namespace braid::view
