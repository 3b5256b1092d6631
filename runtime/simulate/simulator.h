//===- runtime/simulate/simulator.h - how long a Plan would take ------------------------------===//
//
// Discrete events over all ranks, by the laws of a CostModel. Ranks begin together. A command
// begins when the host has issued it and the one before it on its stream has ended; then
//
//   signal       ends after signalUs; its flag is set flightUs later
//   await        ends awaitUs after its flag is set, or after its own begin
//   record       ends at once
//   wait_event   ends eventUs after the record, or at once if that is over
//   copy, add, sum
//                waits fixedUs; then its bytes flow. Copies that leave one rank, or reach one,
//                share its link evenly
//                Where kernels copy, copies that stand together are one kernel: they begin
//                together, after the longest of their fixedUs, and signals among them leave
//                together at the end. Such a kernel, and one that adds, proceeds in the part of
//                the rank's machine that GEMMs before it leave, and GEMMs behind it wait
//   message      between hosts: latencyUs after its receiver may copy, its bytes begin to share
//                the network of both hosts with whatever leaves the one or reaches the other
//   group, collective
//                wait until all who meet there have come. On one host whose model knows what they
//                cost they are kernels that take that; elsewhere signals and copies spell out
//                their data
//   matmul       takes the share of the machine that is left by GEMMs which began before it,
//                its own share at most. From when another one is under way, too, it takes
//                contention times as long, until it ends. Where power limits it, its clock is
//                what runs like this one leave power for (power.h)
//
// Where runs follow one another, those of a rank do so as on the caller's stream: the next begins
// gapUs after all of the one before, and ranks wait for one another by their signals alone.
//
// No noise and no randomness: the same arguments give the same result.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/progress.h"
#include "runtime/simulate/cost_model.h"

namespace braid {

/// One run alone, with its spans; what a run takes among others that follow one another; or both.
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

/// Bytes that one run sends over the network, between hosts; of a collective as it is spelled out,
/// each part straight from who has it to who gets it. Of all ranks and hosts; empty where no rank
/// may send messages.
struct NetworkTraffic {
  std::vector<int64_t> sentByRank, sentByHost;
};

/// Of the Plans of all ranks.
NetworkTraffic trafficOf(llvm::ArrayRef<Plan> plans);

struct Simulation {
  /// From the call of a run until its slowest rank's host knows that it is over.
  double us = 0;
  /// Of a run where runs follow one another, issued without a wait; nothing if not asked for.
  std::optional<double> burstUs = {};
  /// Of each command of each rank: spans[rank][command].
  std::vector<std::vector<SimulatedSpan>> spans;
  /// Where ranks send messages, unless the model knows what they cost: the Plans with their data
  /// spelled out (runtime/plan/spell_out.h), of whose commands the spans are. Empty otherwise.
  std::vector<Plan> spelled;
  NetworkTraffic traffic;
};

/// Those that the spans are of: `plans`, which were simulated, or with messages spelled out.
inline llvm::ArrayRef<Plan> shownPlans(llvm::ArrayRef<Plan> plans, const Simulation &simulation) {
  return simulation.spelled.empty() ? plans : llvm::ArrayRef<Plan>(simulation.spelled);
}

/// Predicts one run of the Plans of all ranks, in rank order, or of those that stand for all
/// (alike_ranks.h). BadInput if they are not such Plans; Unsupported if the model lacks what they
/// need; TimedOut if the run cannot end, naming what waits. Ends on any Plans.
Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options);

} // namespace braid
