//===- api/simulate/simulate_program.h - predicts how long a program takes on a machine -------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/progress.h"
#include "runtime/simulate/simulator.h"

namespace braid {

struct MachinePrediction {
  std::string program;
  int64_t ranks = 0, simulated = 0; ///< simulated ranks, which represent all
  double us = 0;                    ///< time of a single run
  double burstUs = 0;               ///< time of a run among successive runs
  int64_t memoryBytes = 0;          ///< maximum over ranks: tensors and allocations
  double gemmsUs = 0;               ///< time of all GEMMs if everything else took no time
  double othersUs = 0;              ///< time of everything else if GEMMs took no time

  /// Returns E: the larger of the GEMMs' time and the rest, divided by the time of the run. E is 1
  /// if the smaller one is hidden completely.
  double efficiency() const { return us > 0 ? std::min(1.0, std::max(gemmsUs, othersUs) / us) : 1; }
};

/// Returns Plans that represent all ranks. If `most` is not 0, compares about that many ranks.
/// Located mistakes are added to the source's diags.
Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most = 0,
                                          const ProgressFn &progress = {});

/// Fails like simulate(). Returns Rejected if the run cannot end.
Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options);

struct PredictedSchedule {
  Configurations schedule;
  MachinePrediction prediction;
};
/// Returns the schedules that `auto` would try, the fastest prediction first. Chooses for the
/// stages in sequence, with the best choices so far for the others. `auto` also treats nearly equal
/// predictions as equal, and measures. Returns BadInput for a program.
Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress = {});

} // namespace braid
