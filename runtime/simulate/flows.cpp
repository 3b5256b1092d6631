//===- runtime/simulate/flows.cpp - copies share links, GEMMs a machine -----------------------===//

#include "runtime/simulate/flows.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace braid::simulator {
namespace {

/// Of a machine: what copies over a link need of it, and what there is for kernels of a few threads
/// beside GEMMs, whose blocks end at any time.
constexpr double kSmallPart = 0.1;

bool isGemmAtWork(const Flow &flow) { return flow.isGemm && flow.left > 0; }

/// Or within memory.
bool isOnLink(const Flow &flow) { return flow.shared > 0 && !flow.isOnNetwork; }

} // namespace

Flow copyFlow(uint32_t lane, int64_t bytes, const CopyCost &cost, bool crosses, uint32_t from,
              uint32_t to) {
  return {.lane = lane,
          .needs = crosses ? kSmallPart : 1,
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
          .machine = rank,
          .from = rank,
          .to = rank};
}

Flow messageFlow(uint32_t lane, double us, uint32_t rank) {
  return {.lane = lane,
          .isKernel = true,
          .left = us,
          .limit = 1,
          .machine = rank,
          .from = rank,
          .to = rank};
}

Flow launchFlow(uint32_t lane, double us, uint32_t rank) {
  Flow flow = messageFlow(lane, us, rank);
  flow.leastPart = kSmallPart;
  return flow;
}

void Flows::start(const Flow &flow) {
  flows_.push_back(flow);
  haveChanged_ = true;
}

void Flows::share() {
  if (!haveChanged_)
    return;
  haveChanged_ = false;
  // Those that begin at one moment have no order but this one: GEMMs first, and of those what can
  // take least, so that the others get what it leaves of its part.
  std::stable_sort(
      flows_.begin() + static_cast<std::ptrdiff_t>(ordered_), flows_.end(),
      [](const Flow &a, const Flow &b) { return a.isGemm && (!b.isGemm || a.limit < b.limit); });
  for (; ordered_ < flows_.size(); ++ordered_)
    flows_[ordered_].moment = moment_;
  ++moment_;
  shareLinks();
  shareNetwork();
  shareMachines();
}

/// Each copy gets an even part of the links it goes through.
void Flows::shareLinks() {
  std::vector<uint32_t> leaving(ranks_, 0), reaching(ranks_, 0), within(ranks_, 0);
  for (const Flow &flow : flows_)
    if (isOnLink(flow)) {
      ++(flow.crosses ? leaving : within)[flow.from];
      reaching[flow.to] += flow.crosses;
    }
  for (Flow &flow : flows_)
    if (isOnLink(flow)) {
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

/// Of each flow that is a GEMM: it, and those behind it that began at its moment on its machine.
std::vector<uint32_t> Flows::countSharers() const {
  std::vector<uint32_t> sharers(flows_.size(), 0), behind(ranks_, 0);
  std::vector<uint64_t> moments(ranks_, 0);
  for (size_t i = flows_.size(); i-- > 0;) {
    const Flow &flow = flows_[i];
    if (!isGemmAtWork(flow))
      continue;
    uint32_t &count = behind[flow.machine];
    count = std::exchange(moments[flow.machine], flow.moment) == flow.moment ? count + 1 : 1;
    sharers[i] = count;
  }
  return sharers;
}

/// Each GEMM gets what those before it leave, an even part of that if several began at one moment,
/// and makes less of it once it has met another. A kernel is slower by what GEMMs before it have of
/// what it needs, and takes the rest of that from those behind it: the kernels of a rank together
/// what one of them needs.
void Flows::shareMachines() {
  std::vector<uint32_t> gemms(ranks_, 0);
  std::vector<double> free(ranks_, 1), kernels(ranks_, 0); // of GEMMs; what kernels have of that
  const std::vector<uint32_t> sharers = countSharers();
  for (const Flow &flow : flows_)
    gemms[flow.machine] += isGemmAtWork(flow);
  for (size_t i = 0; i < flows_.size(); ++i)
    if (Flow &flow = flows_[i]; isGemmAtWork(flow)) {
      const double share = std::max(free[flow.machine] - kernels[flow.machine], 0.0) / sharers[i];
      const double part = std::min(flow.limit, share);
      free[flow.machine] -= part;
      flow.hasMet |= gemms[flow.machine] > 1;
      flow.rate = flow.hasMet ? part / flow.contention : part;
    } else if (flow.isKernel && flow.left > 0) {
      const double part = std::min(flow.needs, free[flow.machine]);
      flow.rate =
          (isOnLink(flow) ? flow.rate : flow.limit) * std::max(part / flow.needs, flow.leastPart);
      if (flow.leastPart == 0)
        kernels[flow.machine] = std::max(kernels[flow.machine], part);
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
  ordered_ = flows_.size();
  haveChanged_ |= !ended.empty();
  return ended;
}

} // namespace braid::simulator
