//===- api/simulate/simulate_program.h - how long a program would take on a machine -----------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/simulate/simulator.h"

namespace braid {

struct MachinePrediction {
  std::string program;
  int64_t ranks = 0, simulated = 0; ///< how many stood for all
  double us = 0;                    ///< a run
  double burstUs = 0;               ///< a run where runs follow one another
  int64_t memoryBytes = 0; ///< of the rank that takes most: its tensors, and what it allocates
  /// All GEMMs where nothing else takes time, and all else where GEMMs take none.
  double gemmsUs = 0, othersUs = 0;
  /// What the critical path is made of, "GEMM" with its time, the largest first.
  std::vector<std::pair<std::string, double>> parts = {};

  /// Of the larger of the two, how much of the run it is: 1 if the other one is hidden. Alone, what
  /// one rank does may meet what another one does at other times than in the run, and take longer.
  double efficiency() const { return us > 0 ? std::min(1.0, std::max(gemmsUs, othersUs) / us) : 1; }
};

/// The Plans that stand for all ranks. With `most` not 0 only so many ranks are compared with them.
/// Located mistakes are in the source's diags.
Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most = 0,
                                          const ProgressFn &progress = {});

/// As simulate() fails; Rejected if the run cannot end.
Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options);
/// Both in one. Where the program's text shows that all ranks do the same, a few of them are
/// simulated first, so that a run that cannot end is found before all ranks are unrolled.
Result<MachinePrediction> predictProgram(const Compiled &compiled, const CostModel &model,
                                         const SimulationOptions &options);

/// The schedules that `auto` would try with peers' memory, each once, the fastest prediction first.
/// `auto` itself counts predictions that are nearly equal as equal, and measures.
struct PredictedSchedule {
  Configurations schedule;
  MachinePrediction prediction;
};
/// For each stage in turn, while the others keep what is best so far. BadInput for a program.
Result<std::vector<PredictedSchedule>>
predictSchedules(const std::string &name, const std::string &text, const CompileOptions &given,
                 const CostModel &model, const ProgressFn &progress = {});

} // namespace braid
