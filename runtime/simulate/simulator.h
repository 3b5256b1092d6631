//===- runtime/simulate/simulator.h - how long a Plan would take ------------------------------===//
//
// One event loop over the streams of all ranks, by the laws of a CostModel. Ranks begin together. A
// command begins when the host has issued it and the one before it on its stream has ended. Then:
//
//   signal             ends; its flag is set signalUs later
//   await              ends when its flag is set
//   record, wait_event take no time
//   copy, sum, pointwise
//                      wait fixedUs; then their bytes flow at rates that depend on what else runs
//                      (flows.h). Copies by one kernel begin together, after the longest of their
//                      fixedUs, and send their signals at the end
//   message            between hosts: flows over the network after latencyUs
//   group, collective  wait for all who meet there. On one host whose model knows their costs they
//                      are kernels; elsewhere copies and signals spell them out
//   matmul             takes what GEMMs before it leave of the rank's machine
//
// A run in a burst takes as long as the device, with gapUs, or as the host to issue it, whichever
// is longer. In a graph, several streams take one launch more, which costs as much as a small copy.
//
// The same arguments give the same result.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/progress.h"
#include "runtime/simulate/cost_model.h"

namespace braid {

struct SimulationOptions {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  /// Hears of the progress of the simulation.
  ProgressFn progress = {};
};

/// Microseconds since the ranks began. A command that waits has begun.
struct SimulatedSpan {
  double beginUs = 0, endUs = 0;
};

struct Simulation {
  /// From the call of a run until the host of the slowest rank sees its end.
  double us = 0;
  /// The time of a run in a burst, where runs follow one another.
  double burstUs = 0;
  /// spans[rank][command], of a run alone
  std::vector<std::vector<SimulatedSpan>> spans;
  /// The Plans with messages spelled out (runtime/plan/spell_out.h), to which the spans belong.
  /// Empty if there are no messages, or if the model knows what they cost.
  std::vector<Plan> spelled;
};

/// The Plans to which the spans belong: `plans`, which were simulated, or these spelled out.
inline llvm::ArrayRef<Plan> shownPlans(llvm::ArrayRef<Plan> plans, const Simulation &simulation) {
  return simulation.spelled.empty() ? plans : llvm::ArrayRef<Plan>(simulation.spelled);
}

/// Predicts one run of the Plans of all ranks, in rank order, or of those that stand for all, see
/// runtime/plan/alike_ranks.h. BadInput if they are not such Plans; Unsupported if the model lacks
/// what they need; TimedOut if the run cannot end, naming what waits. Ends on any Plans.
Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options);

/// The bytes that each host sends to others in one run, those of a collective as it is spelled out.
/// `plans` are those of all ranks.
std::vector<int64_t> bytesSentByHosts(llvm::ArrayRef<Plan> plans);

} // namespace braid
