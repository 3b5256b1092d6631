//===- runtime/simulate/simulator.h - predicts the duration of a Plan -------------------------===//
//
// A single event loop over the streams of all ranks, with the costs of a CostModel. All ranks start
// at the same time. A command starts when the host has issued it and its predecessor on the stream
// has ended. Then:
//
//   signal             ends immediately; its flag is set after signalUs
//   await              ends when its flag is set
//   record, wait_event take no time
//   copy, sum, pointwise
//                      wait for fixedUs; then their bytes flow (flows.h). Copies by one kernel
//                      start together, after the longest of their fixedUs, and signal at the end
//   message            between hosts: flows over the network after latencyUs
//   group, collective  wait for all participating ranks. On one host, they are kernels that use the
//                      machine; between hosts, they are spelled out as copies and signals
//   matmul             uses the part of the rank's machine that earlier GEMMs leave free
//
// A run in a burst takes as long as the device, or as the host needs to issue it, whichever is
// longer. A graph with several streams takes one more launch, which costs as much as a small copy.
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

/// In microseconds since the start of the ranks. A waiting command has already started.
struct SimulatedSpan {
  double beginUs = 0, endUs = 0;
};

struct Simulation {
  /// From the start of a run until the host of the slowest rank observes its end.
  double us = 0;
  /// The duration of one of several consecutive runs.
  double burstUs = 0;
  /// spans[rank][command] of an isolated run.
  std::vector<std::vector<SimulatedSpan>> spans;
  /// The Plans with messages spelled out (runtime/plan/spell_out.h), to which the spans belong.
  /// Empty on one host.
  std::vector<Plan> spelled;
};

/// Returns the Plans to which the spans belong: the simulated `plans`, or these spelled out.
inline llvm::ArrayRef<Plan> shownPlans(llvm::ArrayRef<Plan> plans, const Simulation &simulation) {
  return simulation.spelled.empty() ? plans : llvm::ArrayRef<Plan>(simulation.spelled);
}

/// Predicts one run of the Plans of all ranks, in rank order, or of those that represent all ranks
/// (see runtime/plan/alike_ranks.h). Returns BadInput for other Plans, Unsupported if the model
/// lacks a required cost, and TimedOut, which names the waiting commands, if the run deadlocks.
/// Always terminates.
Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options);

} // namespace braid
