//===- runtime/simulate/flows.h - copies share links, kernels a machine -----------------------===//
//
// A flow proceeds at a rate that depends on what else is under way. Copies that leave one rank, or
// reach one, get even parts of its link; those that leave a host, or reach one, of its network, and
// no more than even parts of what the network has for their ranks. GEMMs get what those before them
// leave of the rank's machine, those that begin at one moment in even parts: nothing orders them in
// a graph. From when two are under way at once, both proceed slower by their contention until they
// end: the later one, which mostly waits, must not have its own speed back because the first is
// over. Other kernels need the machine, too: they proceed in the part of it that GEMMs before them
// leave, and leave none to GEMMs behind them, but for what keeps a link busy, and for what only
// begins. Between two moments at which a flow begins or ends,
// all rates are constant.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/simulate/cost_model.h"

namespace braid::simulator {

struct Flow {
  uint32_t lane = 0; ///< whose command it is
  bool isGemm = false;
  bool isKernel = false;     ///< something else that needs processors
  double needs = 1;          ///< the part of the machine that a kernel can make use of
  double leastPart = 0;      ///< of that, what it has in any case, and without taking it
  double left = 0;           ///< bytes, or microseconds of the whole machine
  double rate = 0;           ///< of that in a microsecond
  double limit = 0;          ///< the rate that it has alone
  double contention = 1;     ///< what a GEMM's rate is divided by once it has met another one
  bool hasMet = false;       ///< a GEMM, another one of its rank
  uint64_t moment = 0;       ///< number of that at which it began, from 1 on
  uint32_t machine = 0;      ///< of a kernel and a GEMM: whose processors it needs
  double shared = 0;         ///< a link's, of a copy
  bool crosses = false;      ///< a copy, a link; ranks that stand for others have both ends of it
  uint32_t from = 0, to = 0; ///< ranks; of a GEMM both are its own
  bool isOnNetwork = false;
  uint32_t fromHost = 0, toHost = 0; ///< on the network
  double sharedOfRank = 0;           ///< there, what a rank's part of it is
};

/// Where a flow begins or ends on the network.
struct NetworkEnd {
  uint32_t rank, host;
};

Flow copyFlow(uint32_t lane, int64_t bytes, const CopyCost &cost, bool crosses, uint32_t from,
              uint32_t to);
/// From one host to another.
Flow networkFlow(uint32_t lane, int64_t bytes, const NetworkCost &cost, NetworkEnd from,
                 NetworkEnd to);
/// `isEmpty`: has no rows, and so takes no time.
Flow gemmFlow(uint32_t lane, const GemmCost &cost, bool isEmpty, uint32_t rank);

/// Messages, which take what was measured for them, above 0, where they have processors.
Flow messageFlow(uint32_t lane, double us, uint32_t rank);

/// A kernel that has nothing to do.
Flow launchFlow(uint32_t lane, double us, uint32_t rank);

/// All flows that are under way.
class Flows {
public:
  explicit Flows(size_t ranks) : ranks_(ranks) {}

  void start(const Flow &flow);
  /// Gives each its rate, if any has started or ended since. Only then do the others hold.
  void share();
  /// Microseconds until the first of them ends; infinity if none does.
  double untilNextEnd() const;
  /// Lets all proceed for `us`, and returns the lanes of those that then have no more left than
  /// flows in `toleranceUs`, in the order in which they started, of one moment GEMMs first.
  std::vector<uint32_t> proceed(double us, double toleranceUs);

private:
  void shareLinks();
  void shareNetwork();
  void shareMachines();
  std::vector<uint32_t> countSharers() const;

  const size_t ranks_;
  std::vector<Flow> flows_; ///< in the order started; of one moment GEMMs first
  size_t ordered_ = 0;      ///< how many of them are in that order
  uint64_t moment_ = 1;
  bool haveChanged_ = false;
};

} // namespace braid::simulator
