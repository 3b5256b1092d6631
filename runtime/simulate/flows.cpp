//===- runtime/simulate/flows.cpp - copies share links, GEMMs a machine -----------------------===//

#include "runtime/simulate/flows.h"

#include <algorithm>
#include <limits>

namespace braid::simulator {
namespace {

bool isGemmAtWork(const Flow &flow) { return flow.isGemm && flow.left > 0; }

} // namespace

Flow copyFlow(uint32_t lane, int64_t bytes, const CopyCost &cost, bool crosses, uint32_t from,
              uint32_t to) {
  return {.lane = lane,
          .left = static_cast<double>(bytes),
          .limit = cost.bytesPerUs,
          .shared = cost.sharedBytesPerUs,
          .crosses = crosses,
          .from = from,
          .to = to};
}

Flow networkFlow(uint32_t lane, int64_t bytes, const NetworkCost &cost, NetworkEnd from,
                 NetworkEnd to) {
  return {.lane = lane,
          .left = static_cast<double>(bytes),
          .shared = cost.bytesPerUs,
          .crosses = true,
          .from = from.rank,
          .to = to.rank,
          .isOnNetwork = true,
          .fromHost = from.host,
          .toHost = to.host,
          .sharedOfRank = cost.rankBytesPerUs};
}

Flow gemmFlow(uint32_t lane, const GemmCost &cost, bool isEmpty, uint32_t rank) {
  const double left = isEmpty ? 0 : cost.us * cost.utilisation;
  return {.lane = lane,
          .isGemm = true,
          .left = left,
          .rate =
              left > 0 ? 0 : cost.utilisation, // nothing to do is done at once, whatever else runs
          .limit = cost.utilisation,
          .contention = cost.contention,
          .from = rank,
          .to = rank};
}

void Flows::start(const Flow &flow) {
  flows_.push_back(flow);
  haveChanged_ = true;
}

void Flows::share() {
  if (!haveChanged_)
    return;
  haveChanged_ = false;
  shareLinks();
  shareNetwork();
  shareMachines();
}

/// Each copy gets an even part of the links it goes through.
void Flows::shareLinks() {
  std::vector<uint32_t> leaving(ranks_, 0), reaching(ranks_, 0), within(ranks_, 0);
  for (const Flow &flow : flows_)
    if (!flow.isGemm && !flow.isOnNetwork) {
      ++(flow.crosses ? leaving : within)[flow.from];
      reaching[flow.to] += flow.crosses;
    }
  for (Flow &flow : flows_)
    if (!flow.isGemm && !flow.isOnNetwork) {
      uint32_t most =
          flow.crosses ? std::max(leaving[flow.from], reaching[flow.to]) : within[flow.from];
      flow.rate = std::min(flow.limit, flow.shared / most);
    }
}

/// Each message gets an even part of the network of both hosts, and of both ranks.
void Flows::shareNetwork() {
  std::vector<uint32_t> leaving(ranks_, 0), reaching(ranks_, 0); // by rank
  std::vector<uint32_t> leavingHost(ranks_, 0), reachingHost(ranks_, 0);
  for (const Flow &flow : flows_)
    if (flow.isOnNetwork) {
      ++leaving[flow.from];
      ++reaching[flow.to];
      ++leavingHost[flow.fromHost];
      ++reachingHost[flow.toHost];
    }
  for (Flow &flow : flows_)
    if (flow.isOnNetwork)
      flow.rate =
          std::min(flow.shared / std::max(leavingHost[flow.fromHost], reachingHost[flow.toHost]),
                   flow.sharedOfRank / std::max(leaving[flow.from], reaching[flow.to]));
}

/// Each GEMM gets what those before it leave, and makes less of that once it has met another.
void Flows::shareMachines() {
  std::vector<uint32_t> gemms(ranks_, 0);
  std::vector<double> free(ranks_, 1);
  for (const Flow &flow : flows_)
    gemms[flow.from] += isGemmAtWork(flow);
  for (Flow &flow : flows_)
    if (isGemmAtWork(flow)) {
      const double part = std::min(flow.limit, free[flow.from]);
      free[flow.from] -= part;
      flow.hasMet |= gemms[flow.from] > 1;
      flow.rate = flow.hasMet ? part / flow.contention : part;
    }
}

double Flows::untilNextEnd() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Flow &flow : flows_)
    if (flow.rate > 0)
      next = std::min(next, flow.left / flow.rate);
  return next;
}

std::vector<uint32_t> Flows::proceed(double us, double toleranceUs) {
  for (Flow &flow : flows_)
    flow.left -= flow.rate * us;
  auto isOver = [&](const Flow &flow) { return flow.left <= flow.rate * toleranceUs; };
  std::vector<uint32_t> ended;
  for (const Flow &flow : flows_)
    if (isOver(flow))
      ended.push_back(flow.lane);
  flows_.erase(std::remove_if(flows_.begin(), flows_.end(), isOver), flows_.end());
  haveChanged_ |= !ended.empty();
  return ended;
}

} // namespace braid::simulator
