//===- api/calibrate/measure_power.h - measures what the power limit does to GEMMs ------------===//
//
// By a chain of GEMMs that power limits (runtime/simulate/power.h):
//
//   boost   the same after a long rest
//   idle    the same with a rest of a third of its time in front of each run
//   copy    the same while every rank sends blocks to its neighbour
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"

namespace braid {

/// Fills in `model.power` by GEMMs of options.limitedByPower, if there is such a shape. Nothing is
/// known of power where the clock rises by no more than noise. Collective, the same on all ranks.
Status measurePower(CostModel &model, PlanTimer &timer, const CalibrationOptions &options);

} // namespace braid
