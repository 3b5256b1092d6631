//===- api/simulate/simulate_program.cpp - predicts how long a program takes on a machine -----===//

#include "api/simulate/simulate_program.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "runtime/plan/specialize.h"
#include "runtime/simulate/steps.h"

namespace braid {
namespace {

int64_t memoryOfRank(const Plan &plan) {
  int64_t bytes = plan.symmetricBytes + plan.deviceBytes;
  for (const PlanBuffer &buffer : plan.buffers)
    if (buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output)
      bytes += buffer.bytes;
  return bytes;
}

/// Return a copy of `model` in which GEMMs take no time, or in which only GEMMs take time.
CostModel withoutGemms(CostModel model) {
  for (GemmCost &gemm : model.gemms)
    gemm.us = 0;
  return model;
}

CostModel withGemmsAlone(CostModel model) {
  constexpr double kAtOnce = 1e15;
  constexpr CopyCost kFree = {0, kAtOnce};
  for (OperationCosts &costs : model.operations)
    costs = {costs.launchMode, costs.transferMode, 0, 0, 0, kFree, kFree, kFree, kFree};
  model.network = {0, kAtOnce, kAtOnce};
  return model;
}

} // namespace

Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most,
                                          const ProgressFn &progress) {
  auto planOfRank = [&](int64_t rank) { return makePlan(compiled, rank, compiled.source->diags); };
  auto outlineOfRank = [&](int64_t rank, Shift shift) -> Result<Outline> {
    const Plan plan = BRAID_TRY(planOfRank(rank));
    return simulator::timeOutlineOf(plan, shift);
  };
  const int64_t ranks = compiled.program->ranks(), host = compiled.program->ranksPerHost();
  const bool hasMessages = compiled.transport == Transport::Messages || host < ranks;
  const Shift shifts[] = {Shift::Add, Shift::Xor};
  const Alike alike =
      BRAID_TRY(findAlike(ranks, host, llvm::ArrayRef(shifts).take_front(hasMessages ? 1 : 2),
                          outlineOfRank, most, progress));
  if (alike.period == ranks)
    return makePlans(compiled, progress);
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < alike.period; ++rank) {
    plans.push_back(BRAID_TRY(planOfRank(rank)));
    plans.back().shift = alike.shift;
  }
  return plans;
}

Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options) {
  Result<Simulation> simulation = simulate(plans, model, options);
  if (!simulation && simulation.status().code() == StatusCode::TimedOut)
    return Status(
        StatusCode::Rejected,
        simulation.status().message() +
            "\n  run braid check to print the reason, or braid view --check to visualize it");
  if (!simulation)
    return simulation.status();
  int64_t memoryBytes = 0;
  for (const Plan &plan : plans)
    memoryBytes = std::max(memoryBytes, memoryOfRank(plan));
  const Simulation gemms = BRAID_TRY(simulate(plans, withGemmsAlone(model), options));
  const Simulation others = BRAID_TRY(simulate(plans, withoutGemms(model), options));
  return MachinePrediction{.program = plans.front().program,
                           .ranks = plans.front().ranks,
                           .simulated = static_cast<int64_t>(plans.size()),
                           .us = simulation->us,
                           .burstUs = simulation->burstUs,
                           .memoryBytes = memoryBytes,
                           .gemmsUs = gemms.us,
                           .othersUs = others.us};
}

} // namespace braid
