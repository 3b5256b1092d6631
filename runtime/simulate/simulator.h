//===- runtime/simulate/simulator.h - how long a Plan would take ------------------------------===//
//
// One event loop over the streams of all ranks, by the laws of a CostModel. Ranks begin together. A
// command begins when the host has issued it and the one before it on its stream has ended. Then:
//
//   signal             ends; its flag is set signalUs later
//   await              ends when its flag is set
//   record, wait_event take no time
//   copy, sum, pointwise
//                      wait fixedUs; then their bytes flow at rates that depend on what else does
//                      (flows.h). Copies that one kernel makes begin together, after the longest of
//                      their fixedUs, and send their signals at the end
//   message            between hosts: flows over the network after latencyUs
//   group, collective  wait until all who meet there have come. On one host whose model knows what
//                      they cost they are kernels that take that; elsewhere copies and signals
//                      spell them out
//   matmul             takes what GEMMs before it leave of the rank's machine
//
// A run in a burst of them takes as long as the device, with gapUs, or as the host to issue it,
// whichever is longer.
//
// The same arguments give the same result.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/progress.h"
#include "runtime/simulate/cost_model.h"

namespace braid {

/// A run alone, a run among others that follow one another, or both.
enum class Simulated : uint8_t { Run, Burst, Both };

struct SimulationOptions {
  LaunchMode launchMode = LaunchMode::Eager;
  TransferMode transferMode = {};
  Simulated what = Simulated::Run;
  /// Hears how far the simulation is.
  ProgressFn progress = {};
};

/// Microseconds since the ranks began. A command that waits has begun.
struct SimulatedSpan {
  double beginUs = 0, endUs = 0;
};

/// Bytes that one run sends between hosts, by rank and by host; those of a collective as it is
/// spelled out. Empty where no rank may send messages.
struct NetworkTraffic {
  std::vector<int64_t> sentByRank, sentByHost;
};
/// `plans` are those of all ranks.
NetworkTraffic trafficOf(llvm::ArrayRef<Plan> plans);

struct Simulation {
  /// From the call of a run until the host of the slowest rank knows that it is over.
  double us = 0;
  /// The time of a run among others that follow one another.
  std::optional<double> burstUs = {};
  /// spans[rank][command]
  std::vector<std::vector<SimulatedSpan>> spans;
  /// The Plans with messages spelled out (runtime/plan/spell_out.h), whose commands the spans are
  /// of. Empty if there are no messages, or if the model knows what they cost.
  std::vector<Plan> spelled;
  NetworkTraffic traffic;
};

/// The Plans whose commands the spans are of: `plans`, which were simulated, or these spelled out.
inline llvm::ArrayRef<Plan> shownPlans(llvm::ArrayRef<Plan> plans, const Simulation &simulation) {
  return simulation.spelled.empty() ? plans : llvm::ArrayRef<Plan>(simulation.spelled);
}

/// Predicts one run of the Plans of all ranks, in rank order, or of those that stand for all
/// (alike_ranks.h). BadInput if they are not such Plans; Unsupported if the model lacks what they
/// need; TimedOut if the run cannot end, naming what waits. Ends on any Plans.
Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options);

} // namespace braid
