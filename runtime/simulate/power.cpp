//===- runtime/simulate/power.cpp - clocks follow the power that a run takes ------------------===//

#include "runtime/simulate/power.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid::simulator {
namespace {

double rateOf(const GemmCost &gemm) {
  const double operations = double(gemm.m) * double(gemm.n) * double(gemm.k);
  return gemm.us > 0 ? operations / gemm.us : 0;
}

/// GEMMs that power limits have the best rate of all, or nearly so.
class PowerLimit {
public:
  explicit PowerLimit(const CostModel &model) {
    for (const GemmCost &each : model.gemms)
      best_[each.dtype] = std::max(best_[each.dtype], rateOf(each));
  }

  bool holds(const GemmCost &gemm) const {
    constexpr double kNearly = 0.9;
    const auto best = best_.find(gemm.dtype);
    return best != best_.end() && rateOf(gemm) > kNearly * best->second;
  }

private:
  std::map<DType, double> best_; ///< rates
};

double copyUs(const RankState &state, const Command &command, const OperationCosts &costs) {
  if (command.kind == CommandKind::Sum)
    return double(state.plan->sums[command.sum].parts.bytes) / 2 / costs.sumCost().bytesPerUs;
  if (command.kind != CommandKind::Copy)
    return 0;
  const CopyCost &cost = command.endpoint == kNone           ? costs.local
                         : command.src.buffer == kPeerBuffer ? costs.pull
                                                             : costs.push;
  return double(command.dst.bytes) / cost.bytesPerUs;
}

PoweredWork workOf(const RankState &state, const PowerLimit &limit, const OperationCosts &costs) {
  PoweredWork work;
  for (const Command &command : state.plan->commands) {
    work.copiesUs += copyUs(state, command, costs);
    if (command.kind != CommandKind::Matmul)
      continue;
    const GemmCost &gemm = state.costs[command.matmul];
    work.gemmsUs += limit.holds(gemm) ? gemm.us * gemm.utilisation : 0;
  }
  return work;
}

} // namespace

double clockOf(const PowerCost &power, const PoweredWork &work, double periodUs) {
  const auto takesTooMuch = [&](double clock) {
    const double busy = work.gemmsUs / clock;
    const double taken = busy * clock * clock + power.idle * std::max(periodUs - busy, 0.0) +
                         power.copy * work.copiesUs;
    return taken > std::max(periodUs, busy);
  };
  double low = kLeastClock, high = power.boost;
  if (work.gemmsUs <= 0 || !takesTooMuch(high))
    return high;
  for (int step = 0; step < 30; ++step) {
    const double middle = (low + high) / 2;
    (takesTooMuch(middle) ? high : low) = middle;
  }
  return low;
}

double clockOf(const Job &job, const CostModel &model, const OperationCosts &costs,
               double periodUs) {
  const PowerLimit limit(model);
  PoweredWork most;
  for (const RankState &state : job.ranks)
    if (const PoweredWork work = workOf(state, limit, costs); work.gemmsUs > most.gemmsUs)
      most = work;
  return most.gemmsUs > 0 ? clockOf(model.power, most, periodUs) : 1;
}

Job atClock(Job job, const CostModel &model, double clock) {
  const PowerLimit limit(model);
  for (RankState &state : job.ranks)
    for (GemmCost &gemm : state.costs)
      if (limit.holds(gemm))
        gemm.us /= clock;
  return job;
}

} // namespace braid::simulator
