//===- api/simulate/simulate_program.h - predicts how long a program takes on a machine -------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/progress.h"
#include "runtime/simulate/simulator.h"

namespace braid {

struct MachinePrediction {
  std::string program;
  int64_t ranks = 0, simulated = 0; ///< number of ranks, and of ranks simulated to represent them
  double us = 0;                    ///< time of a single run
  double burstUs = 0;               ///< time per run if runs are issued back to back
  int64_t memoryBytes = 0;          ///< tensors and allocations; maximum over the ranks
  double gemmsUs = 0;               ///< time of a run in which only GEMMs take time
  double othersUs = 0;              ///< time of a run in which GEMMs take no time

  /// Returns E, the larger of `gemmsUs` and `othersUs` divided by `us`. E is 1 if the smaller of
  /// the two is completely hidden.
  double efficiency() const { return us > 0 ? std::min(1.0, std::max(gemmsUs, othersUs) / us) : 1; }
};

/// Returns Plans that represent all ranks. If `most` is not 0, finds these Plans by comparing only
/// about `most` ranks. Adds errors with source locations to the source's diagnostics.
Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most = 0,
                                          const ProgressFn &progress = {});

/// Predicts a run. Fails like simulate(), but returns Rejected if the run deadlocks.
Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options);

struct PredictedSchedule {
  Configurations schedule;
  MachinePrediction prediction;
};
/// Returns the schedules that `auto` would try, fastest prediction first. Chooses stage by stage,
/// using the best choices so far for the other stages. Unlike `auto`, measures nothing, and does
/// not treat nearly equal predictions as equal. Returns BadInput if `source` is a program.
Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress = {});

} // namespace braid
