//===- api/calibrate/measure_gemms.h - measures what GEMMs cost -------------------------------===//
#pragma once

#include "api/calibrate/calibrate.h"

namespace braid {

/// Measures those of `shapes` that `model` needs to know what all of them cost: few row counts,
/// others lie between them. True if any had to be measured. Collective, the same on all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

} // namespace braid
