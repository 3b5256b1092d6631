//===- api/simulate/simulate_program.cpp - how long a program would take on a machine ---------===//

#include "api/simulate/simulate_program.h"

#include "api/compile/plans.h"
#include "api/simulate/what_if.h"
#include "api/view/critical_path.h"
#include "api/view/of_plans.h"
#include "ir/failure.h"
#include "runtime/plan/specialize.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/alike_ranks.h"

namespace braid {
namespace {

Result<double> simulateOther(llvm::ArrayRef<Plan> plans, const CostModel &model,
                             const std::string &whatIf, const SimulationOptions &options) {
  const CostModel other = BRAID_TRY(applyWhatIf(model, whatIf));
  const Simulation simulation = BRAID_TRY(simulate(plans, other, options));
  return simulation.us;
}

/// What the critical path is made of; "run" is what passes before the first command is issued and
/// after the last has ended.
std::vector<std::pair<std::string, double>> partsOf(llvm::ArrayRef<Plan> plans,
                                                    const Simulation &simulation) {
  const view::PrintedProgram untitled;
  const view::Page page = view::pageOf(untitled, plans);
  view::Timing timing{.name = "predicted"};
  for (const std::vector<SimulatedSpan> &rank : simulation.spans) {
    std::vector<view::Span> &spans = timing.spans.emplace_back();
    for (const SimulatedSpan &span : rank)
      spans.push_back({span.beginUs, span.endUs});
  }
  view::findCriticalPath(page, timing);
  std::vector<std::pair<std::string, double>> parts = view::partsOf(timing);
  if (simulation.us > timing.total)
    parts.emplace_back("run", simulation.us - timing.total);
  return parts;
}

bool hasMessages(const Plan &plan) { return !plan.groups.empty() || !plan.collectives.empty(); }

} // namespace

Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most) {
  if (compiled.transport == Transport::Messages)
    return makePlans(compiled);
  auto planOfRank = [&](int64_t rank) {
    return specialize(*compiled.program, rank, compiled.source->diags, compiled.transport);
  };
  return plansOfPeriod(compiled.program->ranks(), {1}, planOfRank, most);
}

Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options) {
  std::vector<Plan> spelled;
  if (llvm::any_of(plans, hasMessages)) {
    spelled = spellOut(plans, Meeting::AtOnce);
    for (Plan &plan : spelled)
      plan.transport = Transport::PeerMemory;
    plans = spelled;
  }
  Result<Simulation> simulated = simulate(plans, model, options);
  if (!simulated && simulated.status().code() == StatusCode::TimedOut)
    return Status(StatusCode::Rejected, simulated.status().message() +
                                            "\n  braid check says why, and braid view --check "
                                            "shows it");
  const Simulation simulation = BRAID_TRY(std::move(simulated));
  MachinePrediction prediction;
  prediction.program = plans.front().program;
  prediction.ranks = plans.front().ranks;
  prediction.simulated = static_cast<int64_t>(plans.size());
  prediction.us = simulation.us;
  prediction.parts = partsOf(plans, simulation);
  prediction.gemmsUs = BRAID_TRY(
      simulateOther(plans, model, "link=1e6x,memory=1e6x,copy=0,signal=0,launch=0", options));
  prediction.othersUs = BRAID_TRY(simulateOther(plans, model, "gemm=1e6x", options));
  return prediction;
}

} // namespace braid
