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
  assignMachines();
  shareResources();
}

/// Sets each flow's rate to 1, or to 0 if the flow waits for its machine.
void Flows::assignMachines() {
  std::vector<bool> isBusy(ranks_, false);
  for (Flow &flow : flows_) {
    const bool takesMachine = flow.needsMachine && flow.left > 0;
    flow.rate = takesMachine && isBusy[flow.machine] ? 0 : 1;
    if (takesMachine)
      isBusy[flow.machine] = true;
  }
}

/// A flow that waits for its machine uses no resources.
void Flows::shareResources() {
  std::vector<uint32_t> users(ranks_ * kResources, 0);
  const auto usersOf = [&](const Flow::Use &use) -> uint32_t & {
    return users[static_cast<size_t>(use.number) * kResources + static_cast<size_t>(use.resource)];
  };
  for (const Flow &flow : flows_)
    if (flow.rate > 0)
      for (const Flow::Use &use : flow.uses)
        ++usersOf(use);
  for (Flow &flow : flows_) {
    if (flow.rate == 0)
      continue;
    flow.rate = flow.limit;
    for (const Flow::Use &use : flow.uses)
      flow.rate = std::min(flow.rate, use.capacity / usersOf(use));
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
