//===- runtime/simulate/flows.cpp - models shared links and shared machines -------------------===//

#include "runtime/simulate/flows.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

namespace braid::simulator {

void Flows::share() {
  if (!haveChanged_)
    return;
  haveChanged_ = false;
  std::stable_sort(flows_.begin() + static_cast<std::ptrdiff_t>(ordered_), flows_.end(),
                   [](const Flow &a, const Flow &b) { return a.lane < b.lane; });
  ordered_ = flows_.size();
  shareResources();
  shareMachines();
}

void Flows::shareResources() {
  std::vector<uint32_t> users(ranks_ * kResources, 0);
  const auto usersOf = [&](const Flow::Use &use) -> uint32_t & {
    return users[static_cast<size_t>(use.number) * kResources + static_cast<size_t>(use.resource)];
  };
  for (const Flow &flow : flows_)
    for (const Flow::Use &use : flow.uses)
      ++usersOf(use);
  for (Flow &flow : flows_) {
    flow.rate = flow.limit;
    for (const Flow::Use &use : flow.uses)
      flow.rate = std::min(flow.rate, use.capacity / usersOf(use));
  }
}

/// The kernels of a rank share the part of its machine that a single one of them needs.
void Flows::shareMachines() {
  std::vector<double> free(ranks_, 1), kernels(ranks_, 0); // left free by GEMMs; used by kernels
  for (Flow &flow : flows_) {
    if (flow.needs == 0 || flow.left <= 0)
      continue;
    const double left = free[flow.machine] - (flow.isGemm ? kernels[flow.machine] : 0);
    const double part = std::clamp(left, 0.0, flow.needs);
    flow.rate *= part / flow.needs;
    if (flow.isGemm)
      free[flow.machine] -= part;
    else
      kernels[flow.machine] = std::max(kernels[flow.machine], part);
  }
}

double Flows::untilNextEnd() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Flow &flow : flows_)
    if (flow.left <= 0)
      next = 0;
    else if (flow.rate > 0)
      next = std::min(next, flow.left / flow.rate);
  return next;
}

std::vector<uint32_t> Flows::proceed(double us, double toleranceUs) {
  for (Flow &flow : flows_)
    flow.left -= flow.rate * us;
  const auto isOver = [&](const Flow &flow) { return flow.left <= flow.rate * toleranceUs; };
  std::vector<uint32_t> ended;
  for (const Flow &flow : flows_)
    if (isOver(flow))
      ended.push_back(flow.lane);
  llvm::erase_if(flows_, isOver);
  ordered_ = flows_.size();
  haveChanged_ |= !ended.empty();
  return ended;
}

} // namespace braid::simulator
