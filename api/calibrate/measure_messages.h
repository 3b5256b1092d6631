//===- api/calibrate/measure_messages.h - measures what messages cost -------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"

namespace braid {

/// Measures groups and collectives of the kinds that `plans` have, as far as `model` lacks them:
/// from 4 KiB to what they have, at most 1 GiB, each four times the one before. True if any had to
/// be measured. `plans` are those of one rank. Collective, the same on all ranks.
Result<bool> measureMessages(CostModel &model, llvm::ArrayRef<const Plan *> plans, PlanTimer &timer,
                             const CalibrationOptions &options);

} // namespace braid
