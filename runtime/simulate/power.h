//===- runtime/simulate/power.h - clocks follow the power that a run takes --------------------===//
//
// A GPU may take so much power for long. GEMMs of much arithmetic, one behind the other, take all
// of it at a clock below the highest one, and that is how they were measured. A run in which they
// are part of the time leaves power for a higher clock; one that copies beside them has a lower
// one. At c times the clock, a GEMM takes 1/c of its time and about c squared of its power. On
// average over the time from run to run, which is milliseconds at least, all power is what may be
// taken:
//
//   gemms/c * c^2 + idle * (period - gemms/c) + copy * copies = period
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/simulate/simulated_job.h"

namespace braid::simulator {

/// Power limits take no more of it.
constexpr double kLeastClock = 0.5;

/// What takes power in a run of a rank, in microseconds as they were measured.
struct PoweredWork {
  double gemmsUs = 0; ///< of those whose power limits them
  double copiesUs = 0;
};

/// The clock as a part of that of GEMMs in a row, where a run begins every `periodUs`.
double clockOf(const PowerCost &power, const PoweredWork &work, double periodUs);

/// The clock of the rank that has the most such GEMMs; 1 where power limits none.
double clockOf(const Job &job, const CostModel &model, const OperationCosts &costs,
               double periodUs);

/// `job` with GEMMs that power limits at that clock.
Job atClock(Job job, const CostModel &model, double clock);

} // namespace braid::simulator
