//===- runtime/simulate/alike_ranks.cpp - ranks that do the same are simulated once -----------===//

#include "runtime/simulate/alike_ranks.h"

#include "ir/failure.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/simulate/steps.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

/// All numbers on which the time of a rank's run depends, with peers as seen from the rank. Two
/// ranks do the same, moved, if and only if their outlines are equal.
class Outline {
public:
  Outline(const Plan &plan, Shift shift) : plan_(plan), shift_(shift) {
    add(plan.ranks, plan.ranksPerHost, plan.transport, plan.flags, plan.events, plan.streams.size(),
        plan.symmetricBytes, plan.deviceBytes, plan.hosts() > 1 ? plan.rank % plan.ranksPerHost : 0,
        plan.buffers.size(), plan.endpoints.size(), plan.commands.size());
    for (const PlanBuffer &buffer : plan.buffers)
      add(buffer.kind, buffer.bytes);
    for (const Endpoint &endpoint : plan.endpoints)
      add(endpoint.direction, endpoint.protocol, endpoint.channel, endpoint.sequence, endpoint.flag,
          endpoint.range.bytes, moved(endpoint.peer));
    // The copies that one kernel makes depend on the places of blocks.
    const std::vector<uint32_t> byKernel = simulator::kernelSizes(plan, {CopyBy::Kernel});
    for (size_t i = 0; i < plan.commands.size(); ++i) {
      add(byKernel[i], continuesBatch(plan, i));
      addCommand(plan.commands[i]);
    }
  }

  std::vector<int64_t> numbers;

private:
  template <class... Numbers> void add(Numbers... each) {
    (numbers.push_back(static_cast<int64_t>(each)), ...);
  }
  int64_t moved(int64_t rank) const { return shiftBetween(shift_, plan_.rank, rank, plan_.ranks); }

  void addCommand(const Command &command) {
    add(command.kind, command.stream, command.endpoint, command.flag, command.event, command.group,
        command.collective);
    forEachOperand(plan_, command, [&](const Range &range, Access access, OperandRole role) {
      add(access, role, range.bytes, range.buffer == kPeerBuffer);
    });
    if (command.kind == CommandKind::Matmul)
      addGemm(plan_.matmuls[command.matmul]);
    if (command.kind == CommandKind::Group)
      for (const PlanMessage &message : plan_.groups[command.group])
        add(message.direction, message.dtype, message.range.bytes, moved(message.peer));
    if (command.kind == CommandKind::Collective)
      addCollective(plan_.collectives[command.collective]);
  }

  void addGemm(const PlanMatmul &gemm) {
    add(gemm.dtype, gemm.resultType(), gemm.m, gemm.n, gemm.k, gemm.transposeB);
  }

  /// The team is the same, and from the rank on it is the same as seen from the rank.
  void addCollective(const PlanCollective &collective) {
    add(collective.kind, collective.reduction.has_value(), collective.dtype,
        collective.root < 0 ? -1 : moved(collective.root), collective.team.size());
    std::vector<int64_t> team(collective.team);
    llvm::append_range(numbers, team);
    for (int64_t &rank : team)
      rank = moved(rank);
    std::rotate(team.begin(), llvm::find(team, 0), team.end());
    llvm::append_range(numbers, team);
  }

  const Plan &plan_;
  const Shift shift_;
};

bool mayMove(const Plan &plan, Shift shift) {
  return canShift(shift, plan.ranks) && (shift == Shift::Add || !plan.mayHaveMessages());
}

/// Returns none if some rank does something else than the one of its period.
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
