//===- api/calibrate/measure_machine.h - the whole cost model of a machine, as a file has it --===//
#pragma once

#include "api/calibrate/job_model.h"
#include "runtime/progress.h"

namespace braid {

/// Shapes of GEMMs that models have, whole and split over devices, each with few rows and with
/// many; fewer and smaller ones for the host's cores.
std::vector<PlanMatmul> usualGemms(DType dtype, bool isOnHost);

struct MachineOptions {
  std::vector<PlanMatmul> gemms; ///< to be measured
  /// For GEMMs: none begins that would end later if it took as long as the one before.
  double gemmSeconds = 180;
  std::string name = {};    ///< the machine's; empty: the device's
  ProgressFn progress = {}; ///< hears of it on rank 0
};

struct MeasuredMachine {
  CostModel model;
  size_t gemmsLeftOut = 0; ///< for lack of time
  std::string keptIn;      ///< on rank 0: the file where `auto` finds the model, too
};

/// Measures every launch mode, transfer mode and kind of message, and GEMMs, and has rank 0 keep
/// that for `auto`. The device's transfer modes replace those of `job`; messages are left out, with
/// a warning, where a rank cannot send any. Collective, blocks for minutes; the same on all ranks.
Result<MeasuredMachine> measureMachine(PlanTimer &timer, JobModelOptions job,
                                       const MachineOptions &options);

} // namespace braid
