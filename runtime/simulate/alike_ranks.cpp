//===- runtime/simulate/alike_ranks.cpp - ranks that do the same are simulated once -----------===//

#include "runtime/simulate/alike_ranks.h"

#include "ir/failure.h"
#include "runtime/simulate/kernels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

/// All that the time of a rank's run depends on, as numbers, with peers as seen from the rank. Two
/// ranks do the same, moved, just if their outlines are equal.
class Outline {
public:
  Outline(const Plan &plan, Shift shift) : plan_(plan), shift_(shift) {
    add(plan.ranks, plan.ranksPerHost, plan.transport, plan.flags, plan.events, plan.streams.size(),
        plan.symmetricBytes, plan.deviceBytes);
    if (plan.hosts() > 1)
      add(plan.rank % plan.ranksPerHost);
    addEach(plan.buffers, [&](const PlanBuffer &buffer) { add(buffer.kind, buffer.bytes); });
    addEach(plan.endpoints, [&](const Endpoint &endpoint) { addEndpoint(endpoint); });
    addEach(plan.groups, [&](const PlanGroup &group) {
      addEach(group, [&](const PlanMessage &message) {
        add(message.direction, message.dtype, message.range.bytes, moved(message.peer));
      });
    });
    addEach(plan.collectives, [&](const PlanCollective &one) { addCollective(one); });
    addEach(plan.matmuls, [&](const PlanMatmul &gemm) {
      add(gemm.dtype, gemm.resultType(), gemm.m, gemm.n, gemm.k, gemm.transposeB, gemm.c.bytes,
          gemm.addend.bytes);
    });
    addEach(plan.sums,
            [&](const PlanSum &sum) { add(sum.count, sum.partial, sum.result, sum.dst.bytes); });
    addEach(plan.pointwise, [&](const PlanPointwise &pointwise) {
      add(pointwise.dst.bytes);
      addEach(pointwise.operands(),
              [&](const PlanPointwise::Operand &operand) { add(operand.range.bytes); });
    });
    addEach(plan.commands, [&](const Command &command) { addCommand(command); });
    addKernels();
  }

  std::vector<int64_t> numbers;

private:
  template <class... Numbers> void add(Numbers... each) {
    (numbers.push_back(static_cast<int64_t>(each)), ...);
  }
  template <class List, class Fn> void addEach(const List &list, Fn addOne) {
    add(list.size());
    for (const auto &each : list)
      addOne(each);
  }
  int64_t moved(int64_t rank) const { return shiftBetween(shift_, plan_.rank, rank, plan_.ranks); }

  void addEndpoint(const Endpoint &endpoint) {
    add(endpoint.direction, endpoint.protocol, endpoint.channel, endpoint.sequence, endpoint.flag,
        endpoint.range.bytes, moved(endpoint.peer));
  }

  /// The team is the same, and from the rank on it is the same as seen from the rank.
  void addCollective(const PlanCollective &collective) {
    add(collective.kind, collective.reduction.has_value(), collective.dtype, collective.dst.bytes,
        collective.src.bytes, collective.root < 0 ? -1 : moved(collective.root));
    addEach(collective.team, [&](int64_t rank) { add(rank); });
    std::vector<int64_t> team(collective.team);
    for (int64_t &rank : team)
      rank = moved(rank);
    std::rotate(team.begin(), llvm::find(team, 0), team.end());
    addEach(team, [&](int64_t rank) { add(rank); });
  }

  void addCommand(const Command &command) {
    add(command.kind, command.stream, command.endpoint, command.flag, command.event, command.matmul,
        command.sum, command.pointwise, command.group, command.collective);
    for (const Range &range : {command.dst, command.src})
      add(range.bytes, range.buffer == kPeerBuffer);
  }

  /// The copies that one kernel makes depend on the places of blocks.
  void addKernels() {
    for (SignalBy signals : {SignalBy::Default, SignalBy::Memory}) {
      const simulator::Kernels kernels = simulator::findKernels(plan_, {CopyBy::Kernel, signals});
      for (size_t i = 0; i < kernels.together.size(); ++i)
        add(kernels.together[i], kernels.launches[i]);
    }
  }

  const Plan &plan_;
  const Shift shift_;
};

bool mayMove(const Plan &plan, Shift shift) {
  return canShift(shift, plan.ranks) && (shift == Shift::Add || !plan.mayHaveMessages());
}

/// None, if some rank does something else than the one of its period.
Result<std::vector<Plan>> tryPeriod(int64_t ranks, int64_t period, Shift shift,
                                    PlanOfRank planOfRank, int64_t most,
                                    const ProgressFn &progress) {
  std::vector<Plan> plans;
  std::vector<std::vector<int64_t>> outlines;
  for (int64_t rank = 0; rank < period; ++rank) {
    plans.push_back(BRAID_TRY(planOfRank(rank)));
    if (!mayMove(plans.back(), shift))
      return std::vector<Plan>();
    outlines.push_back(Outline(plans.back(), shift).numbers);
    plans.back().shift = shift;
  }
  const int64_t others = ranks - period;
  const int64_t step = most == 0 ? 1 : std::max<int64_t>(1, others / most);
  ProgressStep compared(progress, "comparing ranks", "ranks",
                        static_cast<size_t>((others + step - 1) / step));
  for (int64_t i = 0; i < others; i += step) {
    const int64_t rank = ranks - 1 - i;
    const Plan plan = BRAID_TRY(planOfRank(rank));
    if (Outline(plan, shift).numbers != outlines[static_cast<size_t>(rank % period)])
      return std::vector<Plan>();
    compared.advance();
  }
  return plans;
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
  return mayMove(plan, shift) && Outline(plan, shift).numbers == Outline(other, shift).numbers;
}

Result<std::vector<Plan>> plansOfPeriod(int64_t ranks, llvm::ArrayRef<int64_t> periods,
                                        PlanOfRank planOfRank, int64_t most,
                                        const ProgressFn &progress) {
  for (int64_t period : periods)
    for (Shift shift : {Shift::Add, Shift::Xor}) {
      std::vector<Plan> plans =
          BRAID_TRY(tryPeriod(ranks, period, shift, planOfRank, most, progress));
      if (!plans.empty())
        return plans;
    }
  return std::vector<Plan>();
}

} // namespace braid
