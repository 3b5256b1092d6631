//===- runtime/simulate/flows.h - copies share links, kernels share a machine -----------------===//
//
// A flow is work in progress. Its rate depends on the other flows, and is constant between two
// moments at which a flow begins or ends.
//
//   resources   flows that use one, such as the link out of a rank, get even parts of it
//   machine     a GEMM gets what earlier GEMMs leave of its rank's machine. A kernel that copies,
//               adds or sends is slower by what earlier GEMMs take of what it needs, and later
//               GEMMs get the rest
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

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
    int64_t number;  ///< rank or host
    double capacity; ///< bytes per microsecond
  };

  double left = 0;  ///< bytes, or microseconds
  double limit = 1; ///< the rate that it has alone
  llvm::SmallVector<Use, 4> uses = {};
  uint32_t lane = 0;    ///< the stream of its command
  uint32_t machine = 0; ///< the rank whose machine it needs
  double needs = 0;     ///< the part of the machine that it can use; 0: it needs none
  bool isGemm = false;
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
