//===- runtime/simulate/flows.h - models shared links and shared machines ---------------------===//
//
// A flow is work in progress. Its rate depends on the other flows, and is constant between the
// times at which flows start or end.
//
//   resources   flows that use the same resource, such as the link out of a rank, share it evenly
//   machine     a rank's processors. A GEMM, a message, or a kernel that adds or copies locally
//               occupies them all; such flows run one after another, in order of start time
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace braid::simulator {

/// Resources that are shared evenly by the flows using them. HostOut and HostIn exist once per
/// host, all other resources once per rank.
enum class Resource : uint8_t {
  LinkOut,
  LinkIn,
  Memory,
  NetworkOut,
  NetworkIn,
  HostOut,
  HostIn,
};
inline constexpr size_t kResources = 7;

struct Flow {
  struct Use {
    Resource resource;
    int64_t number;  ///< rank or host
    double capacity; ///< bytes per microsecond
  };

  double left = 0;  ///< remaining bytes or microseconds
  double limit = 1; ///< the rate if there are no other flows
  llvm::SmallVector<Use, 4> uses = {};
  uint32_t lane = 0;    ///< the lane of the step that it belongs to
  uint32_t machine = 0; ///< the rank whose machine it may need
  bool needsMachine = false;
  double rate = 0;
};

/// All flows in progress.
class Flows {
public:
  explicit Flows(size_t ranks) : ranks_(ranks) {}

  void start(const Flow &flow) {
    flows_.push_back(flow);
    haveChanged_ = true;
  }

  /// Updates the rates. Must be called once all flows that start at this time have been added.
  void share() {
    if (!haveChanged_)
      return;
    haveChanged_ = false;
    std::stable_sort(flows_.begin() + static_cast<std::ptrdiff_t>(ordered_), flows_.end(),
                     [](const Flow &a, const Flow &b) { return a.lane < b.lane; });
    ordered_ = flows_.size();
    assignMachines();
    shareResources();
  }

  /// Returns the time in microseconds until the first flow ends, or infinity if no flow ends.
  double untilNextEnd() const {
    double next = std::numeric_limits<double>::infinity();
    for (const Flow &flow : flows_)
      if (flow.left <= 0)
        next = 0;
      else if (flow.rate > 0)
        next = std::min(next, flow.left / flow.rate);
    return next;
  }

  /// Advances all flows by `us`. Removes flows that end within `toleranceUs`; returns their lanes.
  std::vector<uint32_t> proceed(double us, double toleranceUs) {
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

private:
  /// Sets each flow's rate to 1, or to 0 if the flow waits for its machine.
  void assignMachines() {
    std::vector<bool> isBusy(ranks_, false);
    for (Flow &flow : flows_) {
      const bool takesMachine = flow.needsMachine && flow.left > 0;
      flow.rate = takesMachine && isBusy[flow.machine] ? 0 : 1;
      if (takesMachine)
        isBusy[flow.machine] = true;
    }
  }

  /// A flow that waits for its machine uses no resources.
  void shareResources() {
    std::vector<uint32_t> users(ranks_ * kResources, 0);
    const auto usersOf = [&](const Flow::Use &use) -> uint32_t & {
      return users[static_cast<size_t>(use.number) * kResources +
                   static_cast<size_t>(use.resource)];
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

  const size_t ranks_;
  std::vector<Flow> flows_; ///< sorted by start time, then by lane
  size_t ordered_ = 0;      ///< number of flows already in that order
  bool haveChanged_ = false;
};

} // namespace braid::simulator
