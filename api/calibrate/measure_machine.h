//===- api/calibrate/measure_machine.h - measures the whole cost model of a machine -----------===//
#pragma once

#include "api/calibrate/job_model.h"
#include "runtime/progress.h"

namespace braid {

/// Returns common GEMM shapes of models, whole and split over devices, each with few and with many
/// rows. Fewer and smaller shapes if the host computes.
std::vector<PlanMatmul> usualGemms(DType dtype, bool isOnHost);

struct MachineOptions {
  std::vector<PlanMatmul> gemms; ///< the shapes to measure
  /// Time limit for GEMMs: none starts that would end later if it took as long as the one before.
  double gemmSeconds = 180;
  std::string name = {};    ///< the machine's name; empty means that of the device
  ProgressFn progress = {}; ///< receives progress on rank 0
};

struct MeasuredMachine {
  CostModel model;
  size_t gemmsLeftOut = 0; ///< because of the time limit
  std::string keptIn;      ///< the file from which `auto` loads the model, on rank 0
};

/// Measures every launch mode and transfer mode, messages, and GEMMs. Rank 0 stores the
/// results for `auto`. The device's transfer modes replace those of `job`. If a rank cannot send
/// messages, they are left out with a warning. Collective; blocks for minutes; equal on all ranks.
Result<MeasuredMachine> measureMachine(PlanTimer &timer, JobModelOptions job,
                                       const MachineOptions &options);

} // namespace braid
