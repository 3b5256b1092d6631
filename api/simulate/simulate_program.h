//===- api/simulate/simulate_program.h - how long a program would take on a machine -----------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/simulate/simulator.h"

namespace braid {

struct MachinePrediction {
  std::string program;
  int64_t ranks = 0, simulated = 0; ///< ranks that stood for all
  double us = 0;                    ///< a run
  double burstUs = 0;               ///< a run among others that follow one another
  int64_t memoryBytes = 0;          ///< the most of a rank: its tensors, and what it allocates
  double gemmsUs = 0;               ///< all GEMMs, if nothing else took time
  double othersUs = 0;              ///< everything else, if GEMMs took no time
  /// The parts of the critical path: "GEMM" with its time, the largest first.
  std::vector<std::pair<std::string, double>> parts = {};

  /// E: the larger of GEMMs and everything else, as a part of the run; 1 if the other one is
  /// hidden.
  double efficiency() const { return us > 0 ? std::min(1.0, std::max(gemmsUs, othersUs) / us) : 1; }
};

/// The Plans that stand for all ranks. If `most` is not 0, about that many ranks are compared with
/// them. Located mistakes are in the source's diags.
Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most = 0,
                                          const ProgressFn &progress = {});

/// As simulate() fails; Rejected if the run cannot end.
Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options);

struct PredictedSchedule {
  Configurations schedule;
  MachinePrediction prediction;
};
/// The schedules that `auto` would try, the fastest prediction first. Stages are chosen for in
/// turn, while the others keep the best so far. `auto` itself counts predictions that are nearly
/// equal as equal, and measures. BadInput for a program.
Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress = {});

} // namespace braid
