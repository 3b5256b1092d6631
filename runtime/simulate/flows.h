//===- runtime/simulate/flows.h - copies share links, kernels share a machine -----------------===//
//
// A flow is work in progress; its rate depends on what else is in progress, and is constant between
// two moments at which a flow begins or ends.
//
//   resources   flows that use one, such as the link out of a rank, get even parts of it
//   machine     a GEMM gets what GEMMs before it leave of its rank's machine. A kernel that copies,
//               adds or sends is slower by what GEMMs before it take of what it needs, and GEMMs
//               after it get the rest. Copies over a link need a tenth of the machine only
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

#include "llvm/ADT/SmallVector.h"

namespace braid::simulator {

/// Flows share these evenly. Each rank has one of each; a host has the last two.
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
    uint32_t number; ///< rank or host
    double capacity; ///< bytes per microsecond
  };

  uint32_t lane = 0; ///< the stream of its command
  double left = 0;   ///< bytes, or microseconds
  double limit = 1;  ///< the rate that it has alone
  llvm::SmallVector<Use, 4> uses = {};
  uint32_t machine = 0; ///< the rank whose machine it needs
  double needs = 0;     ///< the part of the machine that it can make use of; 0: it needs none
  bool isGemm = false;
  double rate = 0;
};

/// A copy within the rank's memory.
Flow localFlow(uint32_t lane, int64_t bytes, const CopyCost &cost, uint32_t rank);
/// A copy from one rank to another one of the host.
Flow linkFlow(uint32_t lane, int64_t bytes, const CopyCost &cost, uint32_t from, uint32_t to);

/// A rank with its host.
struct NetworkEnd {
  uint32_t rank, host;
};
Flow networkFlow(uint32_t lane, int64_t bytes, const NetworkCost &cost, NetworkEnd from,
                 NetworkEnd to);
Flow gemmFlow(uint32_t lane, const GemmCost &cost, uint32_t rank);
/// A kernel that takes `us` if it has the whole machine.
Flow kernelFlow(uint32_t lane, double us, uint32_t rank);
/// The copy, by a kernel instead of an engine.
Flow byKernel(Flow copy, uint32_t rank);

/// All flows in progress.
class Flows {
public:
  explicit Flows(size_t ranks) : ranks_(ranks) {}

  void start(const Flow &flow) {
    flows_.push_back(flow);
    haveChanged_ = true;
  }
  /// Gives each flow its rate, once all that begin at this moment have been started.
  void share();
  /// Microseconds until the first of them ends; infinity if none does.
  double untilNextEnd() const;
  /// Lets all proceed for `us`. Returns the lanes of those that then need `toleranceUs` or less.
  std::vector<uint32_t> proceed(double us, double toleranceUs);

private:
  void shareResources();
  void shareMachines();

  const size_t ranks_;
  std::vector<Flow> flows_; ///< by the moment of their start, then by lane
  size_t ordered_ = 0;      ///< the number of them in that order
  bool haveChanged_ = false;
};

} // namespace braid::simulator
