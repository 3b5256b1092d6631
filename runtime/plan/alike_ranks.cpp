//===- runtime/plan/alike_ranks.cpp - ranks that differ only in their peers -------------------===//

#include "runtime/plan/alike_ranks.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

class OutlineWriter {
public:
  OutlineWriter(const Plan &plan, Shift shift) : plan_(plan), shift_(shift) {}

  Outline write() {
    add(plan_.ranks, plan_.ranksPerHost, plan_.transport, plan_.flags, plan_.events,
        plan_.streams.size(), plan_.symmetricBytes, plan_.deviceBytes, plan_.buffers.size(),
        plan_.endpoints.size(), plan_.commands.size());
    for (const PlanBuffer &buffer : plan_.buffers)
      add(buffer.kind, buffer.bytes);
    for (const Endpoint &endpoint : plan_.endpoints)
      add(endpoint.direction, endpoint.protocol, endpoint.flag, endpoint.range.bytes,
          moved(endpoint.peer), endpoint.isOfMessages, endpoint.isOfMeeting);
    for (const Command &command : plan_.commands)
      addCommand(command);
    for (const PlanRelease &release : plan_.releases)
      add(release.beforeCommand, release.stream);
    return std::move(numbers_);
  }

private:
  template <class... Numbers> void add(Numbers... each) {
    (numbers_.push_back(static_cast<int64_t>(each)), ...);
  }
  int64_t moved(int64_t rank) const { return shiftBetween(shift_, plan_.rank, rank, plan_.ranks); }

  void addCommand(const Command &command) {
    add(command.kind, command.stream, command.endpoint, command.event, command.group,
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

  /// Adds the team's absolute ranks and its ranks relative to this rank, since both must match.
  void addCollective(const PlanCollective &collective) {
    add(collective.kind, collective.reduction.has_value(), collective.dtype,
        collective.root < 0 ? -1 : moved(collective.root), collective.team.size());
    std::vector<int64_t> team(collective.team);
    llvm::append_range(numbers_, team);
    for (int64_t &rank : team)
      rank = moved(rank);
    std::rotate(team.begin(), llvm::find(team, 0), team.end());
    llvm::append_range(numbers_, team);
  }

  const Plan &plan_;
  const Shift shift_;
  Outline numbers_;
};

} // namespace

Outline outlineOf(const Plan &plan, Shift shift) { return OutlineWriter(plan, shift).write(); }

Result<Alike>
findAlike(int64_t ranks, int64_t ranksPerHost, llvm::ArrayRef<Shift> shifts,
          llvm::function_ref<Result<Outline>(int64_t rank, Shift shift)> outlineOfRank,
          int64_t most, const ProgressFn &progress) {
  auto areAlike = [&](Alike alike) -> Result<bool> {
    std::vector<Outline> first;
    for (int64_t rank = 0; rank < alike.period; ++rank)
      first.push_back(BRAID_TRY(outlineOfRank(rank, alike.shift)));
    const int64_t others = ranks - alike.period;
    const int64_t step = most == 0 ? 1 : std::max<int64_t>(1, others / most);
    ProgressStep compared(progress, "comparing ranks", "ranks",
                          static_cast<size_t>((others + step - 1) / step));
    for (int64_t rank = ranks - 1; rank >= alike.period; rank -= step, compared.advance()) {
      const Outline outline = BRAID_TRY(outlineOfRank(rank, alike.shift));
      if (outline != first[static_cast<size_t>(rank % alike.period)])
        return false;
    }
    return true;
  };
  for (int64_t period : {int64_t(1), ranksPerHost})
    for (Shift shift : shifts) {
      if (period == 0 || period >= ranks || ranks % period != 0 || !canShift(shift, ranks))
        continue;
      const bool found = BRAID_TRY(areAlike({period, shift}));
      if (found)
        return Alike{period, shift};
    }
  return Alike{ranks};
}

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

} // namespace braid
