//===- runtime/simulate/flows.h - models shared links and shared machines ---------------------===//
//
// A flow is work in progress. Its rate depends on the other flows, and is constant between the
// times at which flows start or end.
//
//   resources   flows that use the same resource, such as the link out of a rank, share it evenly
//   machine     a GEMM, a message, or a kernel that adds or copies within a rank occupies the whole
//               machine of the rank; these flows run one after another, in order of their start
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
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
  void share();
  /// Returns the time in microseconds until the first flow ends, or infinity if no flow ends.
  double untilNextEnd() const;
  /// Advances all flows by `us`. Removes flows that end within `toleranceUs`; returns their lanes.
  std::vector<uint32_t> proceed(double us, double toleranceUs);

private:
  void assignMachines();
  void shareResources();

  const size_t ranks_;
  std::vector<Flow> flows_; ///< sorted by start time, then by lane
  size_t ordered_ = 0;      ///< number of flows already in that order
  bool haveChanged_ = false;
};

} // namespace braid::simulator
