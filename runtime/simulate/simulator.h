//===- runtime/simulate/simulator.h - predicts the duration of a Plan -------------------------===//
//
// Runs a single event loop over the streams of all ranks, with the costs of a CostModel. All ranks
// start at the same time. A command starts once the host has issued it and its predecessor on the
// stream has ended. Then:
//
//   signal             ends immediately; its flag is set signalUs later
//   await              ends once its flag is set
//   record, wait_event take no time
//   copy, sum, pointwise
//                      wait for fixedUs, then transfer their bytes (flows.h). Copies in one kernel
//                      start together, after the longest of their fixedUs, and signal at the end
//   message            between hosts: transfers its bytes over the network after latencyUs
//   group, collective  wait for all participating ranks. On one host, they are kernels that use the
//                      machine; between hosts, they are expanded into copies and signals
//   matmul             occupies the rank's whole machine once earlier users have finished (flows.h)
//
// In a burst, each run takes the device's execution time or the host's issue time, whichever is
// longer. A graph with several streams needs another launch, which costs as much as a small copy.
//
// The result is deterministic.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

namespace braid {

struct SimulationOptions {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
};

/// Times in microseconds since the ranks started. A span includes its command's waiting time.
struct SimulatedSpan {
  double beginUs = 0, endUs = 0;
};

struct Simulation {
  /// The time from the start of a run until the slowest rank's host observes its end.
  double us = 0;
  /// The duration of one run in a series of back-to-back runs.
  double burstUs = 0;
  /// spans[rank][command] for an isolated run.
  std::vector<std::vector<SimulatedSpan>> spans;
  /// If the ranks span several hosts, the Plans with messages spelled out
  /// (runtime/plan/spell_out.h), to which the spans then refer; otherwise empty.
  std::vector<Plan> spelled;
};

/// Returns the Plans to which the spans refer: `plans`, or `plans` with messages spelled out.
inline llvm::ArrayRef<Plan> shownPlans(llvm::ArrayRef<Plan> plans, const Simulation &simulation) {
  return simulation.spelled.empty() ? plans : llvm::ArrayRef<Plan>(simulation.spelled);
}

/// Predicts one run of the Plans of all ranks, in rank order, or of Plans that represent all ranks
/// (see runtime/plan/alike_ranks.h). Returns BadInput for other Plans, Unsupported if `model` lacks
/// a required cost, and TimedOut, naming the waiting commands, if the run deadlocks. Always
/// terminates.
Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options);

} // namespace braid
