//===- api/calibrate/measure_machine.h - measures the whole cost model of a machine -----------===//
#pragma once

#include "api/calibrate/calibrate.h"

namespace braid {

/// Returns common GEMM shapes of models, whole and split over devices, each with few and with many
/// rows. Fewer and smaller shapes if the host computes.
std::vector<PlanMatmul> usualGemms(DType dtype, bool isOnHost);

struct MeasuredMachine {
  CostModel model;
  size_t gemmsLeftOut = 0; ///< because of the time limit
};

/// Measures every launch mode and transfer mode, messages, and `gemms`. The device's transfer modes
/// replace those of `options`. If a rank cannot send messages, they are left out with a warning. No
/// GEMM starts that would end after `gemmSeconds` if it took as long as the one before. Collective;
/// blocks for minutes; equal on all ranks.
Result<MeasuredMachine> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                       const std::vector<PlanMatmul> &gemms, double gemmSeconds);

} // namespace braid
