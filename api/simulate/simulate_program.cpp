//===- api/simulate/simulate_program.cpp - how long a program would take on a machine ---------===//

#include "api/simulate/simulate_program.h"

#include "api/compile/plans.h"
#include "api/simulate/what_if.h"
#include "api/view/critical_path.h"
#include "api/view/of_plans.h"
#include "ir/failure.h"
#include "runtime/plan/specialize.h"
#include "runtime/simulate/alike_ranks.h"

namespace braid {
namespace {

/// The listener hears of `step` instead.
ProgressFn named(const ProgressFn &listener, const char *step) {
  if (!listener)
    return {};
  return [&listener, step](WorkProgress now) {
    now.step = step;
    listener(now);
  };
}

/// `step` says what is simulated then.
Result<double> simulateOther(llvm::ArrayRef<Plan> plans, const CostModel &model,
                             const std::string &whatIf, const SimulationOptions &options,
                             const char *step) {
  const CostModel other = BRAID_TRY(applyWhatIf(model, whatIf));
  SimulationOptions alone = options;
  alone.progress = named(options.progress, step);
  const Simulation simulation = BRAID_TRY(simulate(plans, other, alone));
  return simulation.us;
}

/// All GEMMs are left.
constexpr const char *kNothingElse =
    "link=1e6x,network=1e6x,memory=1e6x,copy=0,latency=0,signal=0,launch=0";

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

int64_t memoryOfRank(const Plan &plan) {
  int64_t bytes = plan.symmetricBytes + plan.deviceBytes;
  for (const PlanBuffer &buffer : plan.buffers)
    if (buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output)
      bytes += buffer.bytes;
  return bytes;
}

} // namespace

Result<std::vector<Plan>> plansToSimulate(const Compiled &compiled, int64_t most,
                                          const ProgressFn &progress) {
  auto planOfRank = [&](int64_t rank) {
    return specialize(*compiled.program, rank, compiled.source->diags, compiled.transport,
                      compiled.operands);
  };
  const int64_t ranks = compiled.program->ranks(), host = compiled.program->ranksPerHost();
  llvm::SmallVector<int64_t> periods = {1};
  if (host > 1 && host < ranks)
    periods.push_back(host);
  std::vector<Plan> few = BRAID_TRY(plansOfPeriod(ranks, periods, planOfRank, most, progress));
  if (!few.empty())
    return few;
  return makePlans(compiled, nullptr, progress);
}

namespace {

Result<Simulation> simulateOrReject(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                    SimulationOptions options, Simulated what) {
  options.what = what;
  Result<Simulation> simulated = simulate(plans, model, options);
  if (!simulated && simulated.status().code() == StatusCode::TimedOut)
    return Status(StatusCode::Rejected, simulated.status().message() +
                                            "\n  braid check says why, and braid view --check "
                                            "shows it");
  return simulated;
}

bool readsRank(const Scalar *scalar) {
  return scalar && (scalar->kind() == ScalarKind::Rank || readsRank(scalar->lhs()) ||
                    readsRank(scalar->rhs()));
}

/// How often `rank` is added in a sum; no number that a peer could have if it is used otherwise.
int64_t timesRank(const Scalar *scalar) {
  constexpr int64_t kOtherwise = int64_t(1) << 32;
  switch (scalar->kind()) {
  case ScalarKind::Rank:
    return 1;
  case ScalarKind::Add:
    return timesRank(scalar->lhs()) + timesRank(scalar->rhs());
  case ScalarKind::Sub:
    return timesRank(scalar->lhs()) - timesRank(scalar->rhs());
  default:
    return readsRank(scalar) ? kOtherwise : 0;
  }
}

/// `(rank + a) mod ranks` or `rank xor a`: that of rank 0, shifted by the rank.
bool isShiftedByRank(const Scalar *peer, int64_t ranks) {
  if (peer->kind() == ScalarKind::Xor)
    return readsRank(peer->lhs()) != readsRank(peer->rhs()) &&
           (peer->lhs()->kind() == ScalarKind::Rank || peer->rhs()->kind() == ScalarKind::Rank);
  return peer->kind() == ScalarKind::Mod && peer->rhs()->isConstant(ranks) &&
         timesRank(peer->lhs()) == 1;
}

/// All ranks issue the same nodes for as many bytes, with shifted peers: the rank chooses blocks,
/// and nothing else.
bool doRanksTheSame(const Program &program) {
  bool isSame = program.ranksPerHost() == program.ranks();
  walk(program.body(), [&](const Op &op) {
    if (const auto *p2p = llvm::dyn_cast<P2POp>(&op)) {
      isSame &= isShiftedByRank(p2p->peer, program.ranks());
      return;
    }
    isSame &= !llvm::isa<CollectiveOp>(op); // some ranks may have other teams
    if (!llvm::isa<SelectOp>(op))
      forEachScalar(const_cast<Op &>(op),
                    [&](const Scalar *&scalar) { isSame &= !readsRank(scalar); });
  });
  return isSame;
}

} // namespace

Result<MachinePrediction> predictProgram(const Compiled &compiled, const CostModel &model,
                                         const SimulationOptions &options) {
  constexpr int64_t kFirst = 4;
  if (doRanksTheSame(*compiled.program)) {
    const std::vector<Plan> few = BRAID_TRY(plansToSimulate(compiled, kFirst, options.progress));
    if (static_cast<int64_t>(few.size()) < compiled.program->ranks())
      BRAID_TRY(simulateOrReject(few, model, options, Simulated::Run));
  }
  const std::vector<Plan> plans = BRAID_TRY(plansToSimulate(compiled, 0, options.progress));
  return simulateProgram(plans, model, options);
}

Result<MachinePrediction> simulateProgram(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                          const SimulationOptions &options) {
  const Simulation simulation = BRAID_TRY(simulateOrReject(plans, model, options, Simulated::Both));
  MachinePrediction prediction;
  prediction.program = plans.front().program;
  prediction.ranks = plans.front().ranks;
  prediction.simulated = static_cast<int64_t>(plans.size());
  prediction.us = simulation.us;
  prediction.burstUs = *simulation.burstUs;
  for (const Plan &plan : plans)
    prediction.memoryBytes = std::max(prediction.memoryBytes, memoryOfRank(plan));
  prediction.parts = partsOf(shownPlans(plans, simulation), simulation);
  prediction.gemmsUs =
      BRAID_TRY(simulateOther(plans, model, kNothingElse, options, "simulating GEMMs alone"));
  prediction.othersUs =
      BRAID_TRY(simulateOther(plans, model, "gemm=1e6x", options, "simulating all else alone"));
  return prediction;
}

} // namespace braid
