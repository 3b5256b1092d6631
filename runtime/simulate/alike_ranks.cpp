//===- runtime/simulate/alike_ranks.cpp - ranks that do the same are simulated once -----------===//

#include "runtime/simulate/alike_ranks.h"

#include "ir/failure.h"
#include "runtime/simulate/launches.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

template <class T, class Fn>
bool allMoved(const std::vector<T> &a, const std::vector<T> &b, Fn isMoved) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), isMoved);
}

bool isMovedCommand(const Command &a, const Command &b) {
  auto sameSize = [](const Range &x, const Range &y) {
    return x.bytes == y.bytes && (x.buffer == kPeerBuffer) == (y.buffer == kPeerBuffer);
  };
  return a.kind == b.kind && a.dtype == b.dtype && a.stream == b.stream &&
         a.endpoint == b.endpoint && a.flag == b.flag && a.event == b.event &&
         a.matmul == b.matmul && a.sum == b.sum && a.pointwise == b.pointwise &&
         a.group == b.group && a.collective == b.collective && sameSize(a.dst, b.dst) &&
         sameSize(a.src, b.src);
}

bool isMovedGemm(const PlanMatmul &a, const PlanMatmul &b) {
  return a.dtype == b.dtype && a.m == b.m && a.n == b.n && a.k == b.k &&
         a.transposeB == b.transposeB && a.overlaps == b.overlaps && a.partial == b.partial &&
         a.bias.bytes == b.bias.bytes && a.addend.bytes == b.addend.bytes;
}

bool isMovedSum(const PlanSum &a, const PlanSum &b) {
  return a.count == b.count && a.partial == b.partial && a.result == b.result &&
         a.dst.bytes == b.dst.bytes && a.bias.bytes == b.bias.bytes;
}

bool isMovedPointwise(const PlanPointwise &a, const PlanPointwise &b) {
  auto sameSize = [](const PlanPointwise::Operand &x, const PlanPointwise::Operand &y) {
    return x.dtype == y.dtype && x.range.bytes == y.range.bytes;
  };
  return a.dtype == b.dtype && a.dst.bytes == b.dst.bytes && a.steps.size() == b.steps.size() &&
         allMoved(a.operands(), b.operands(), sameSize);
}

/// Where ranks of several hosts are moved, hosts are.
bool areHostsMoved(const Plan &a, const Plan &b) {
  return a.ranksPerHost == b.ranksPerHost && a.transport == b.transport &&
         (a.hosts() == 1 || (a.rank - b.rank) % a.ranksPerHost == 0);
}

/// Whether the team has the same members in the same order around, if each is moved by `by`.
bool isMovedOntoItself(const std::vector<int64_t> &team, int64_t by, int64_t ranks) {
  const auto first = llvm::find(team, shifted(Shift::Add, team.front(), by, ranks));
  std::vector<int64_t> moved(team);
  for (int64_t &rank : moved)
    rank = shifted(Shift::Add, rank, by, ranks);
  std::rotate(moved.begin(), moved.end() - (first - team.begin()), moved.end());
  return moved == team;
}

bool isMovedCollective(const PlanCollective &a, const PlanCollective &b, int64_t by,
                       int64_t ranks) {
  const bool isRootMoved =
      b.root < 0 ? a.root == b.root : a.root == shifted(Shift::Add, b.root, by, ranks);
  return a.kind == b.kind && a.reduction == b.reduction && a.dtype == b.dtype && isRootMoved &&
         a.dst.bytes == b.dst.bytes && a.src.bytes == b.src.bytes && a.team == b.team &&
         isMovedOntoItself(a.team, by, ranks);
}

} // namespace

EndpointKey keyOf(const Plan &plan, const Endpoint &endpoint) {
  return {plan.rank, endpoint.direction, endpoint.peer, endpoint.channel, endpoint.sequence};
}

EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period) {
  const int64_t stands = endpoint.peer % period, by = endpoint.peer - stands;
  const Direction other =
      endpoint.direction == Direction::Send ? Direction::Receive : Direction::Send;
  return {stands, other, shiftBetween(plan.shift, by, plan.rank, plan.ranks), endpoint.channel,
          endpoint.sequence};
}

bool isMoved(const Plan &plan, const Plan &other, Shift shift) {
  if (!canShift(shift, plan.ranks) || (shift != Shift::Add && plan.mayHaveMessages()))
    return false;
  const int64_t by = shiftBetween(shift, other.rank, plan.rank, plan.ranks);
  auto isMovedEndpoint = [&](const Endpoint &a, const Endpoint &b) {
    return a.direction == b.direction && a.protocol == b.protocol && a.channel == b.channel &&
           a.sequence == b.sequence && a.flag == b.flag && a.range.bytes == b.range.bytes &&
           a.peer == shifted(shift, b.peer, by, plan.ranks);
  };
  auto isMovedMessage = [&](const PlanMessage &a, const PlanMessage &b) {
    return a.direction == b.direction && a.dtype == b.dtype && a.range.bytes == b.range.bytes &&
           a.peer == shifted(shift, b.peer, by, plan.ranks);
  };
  auto isMovedGroup = [&](const PlanGroup &a, const PlanGroup &b) {
    return allMoved(a, b, isMovedMessage);
  };
  auto isMovedMeeting = [&](const PlanCollective &a, const PlanCollective &b) {
    return isMovedCollective(a, b, by, plan.ranks);
  };
  // What one kernel copies depends on what overlaps, and so on where blocks lie.
  auto areTogether = [&](SignalBy signals) {
    const TransferMode kernels{CopyBy::Kernel, signals};
    return simulator::findTogether(plan, kernels) == simulator::findTogether(other, kernels) &&
           simulator::findLaunches(plan, kernels) == simulator::findLaunches(other, kernels) &&
           simulator::findGoingOn(plan, kernels) == simulator::findGoingOn(other, kernels);
  };
  auto takeAsMuch = [](const PlanBuffer &a, const PlanBuffer &b) {
    return a.kind == b.kind && a.bytes == b.bytes;
  };
  return plan.ranks == other.ranks && areHostsMoved(plan, other) && plan.flags == other.flags &&
         plan.symmetricBytes == other.symmetricBytes && plan.deviceBytes == other.deviceBytes &&
         allMoved(plan.buffers, other.buffers, takeAsMuch) && plan.events == other.events &&
         plan.streams.size() == other.streams.size() &&
         allMoved(plan.groups, other.groups, isMovedGroup) &&
         allMoved(plan.collectives, other.collectives, isMovedMeeting) &&
         allMoved(plan.endpoints, other.endpoints, isMovedEndpoint) &&
         allMoved(plan.matmuls, other.matmuls, isMovedGemm) &&
         allMoved(plan.sums, other.sums, isMovedSum) &&
         allMoved(plan.pointwise, other.pointwise, isMovedPointwise) &&
         allMoved(plan.commands, other.commands, isMovedCommand) &&
         areTogether(SignalBy::Default) && areTogether(SignalBy::Memory);
}

/// None, if some rank does something else than the one of its period.
static Result<std::vector<Plan>> tryPeriod(int64_t ranks, int64_t period, PlanOfRank planOfRank,
                                           int64_t most, const ProgressFn &progress) {
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < period; ++rank)
    plans.push_back(BRAID_TRY(planOfRank(rank)));
  const int64_t others = ranks - period;
  const int64_t step = most == 0 ? 1 : std::max<int64_t>(1, others / std::max<int64_t>(1, most));
  ProgressStep compared(progress, "comparing ranks", "ranks",
                        static_cast<size_t>((others + step - 1) / step));
  Shift shift = Shift::Add;
  for (int64_t i = 0; i < others; i += step) {
    const int64_t rank = ranks - 1 - i;
    const Plan plan = BRAID_TRY(planOfRank(rank));
    const Plan &first = plans[static_cast<size_t>(rank % period)];
    if (i == 0 && !isMoved(plan, first, shift))
      shift = Shift::Xor;
    if (!isMoved(plan, first, shift))
      return std::vector<Plan>();
    compared.advance();
  }
  for (Plan &plan : plans)
    plan.shift = shift;
  return plans;
}

Result<std::vector<Plan>> plansOfPeriod(int64_t ranks, llvm::ArrayRef<int64_t> periods,
                                        PlanOfRank planOfRank, int64_t most,
                                        const ProgressFn &progress) {
  for (int64_t period : periods) {
    std::vector<Plan> plans = BRAID_TRY(tryPeriod(ranks, period, planOfRank, most, progress));
    if (!plans.empty())
      return plans;
  }
  return std::vector<Plan>();
}

} // namespace braid
