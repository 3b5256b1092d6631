//===- tests/mutation/plan_mutations.cpp - mistakes that are possible only in Plans -----------===//

#include "tests/mutation/mutants.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

using Plans = std::vector<Plan>;

void eraseCommand(Plan &plan, uint32_t index) {
  plan.commands.erase(plan.commands.begin() + index);
  for (PlanRelease &release : plan.releases)
    if (release.beforeCommand > index)
      --release.beforeCommand;
}

/// Erases the k-th command of a kind, counted over all ranks.
SiteText dropCommand(Plans &plans, CommandKind kind, size_t k) {
  for (Plan &plan : plans)
    for (uint32_t i = 0; i < plan.commands.size(); ++i) {
      if (plan.commands[i].kind != kind || k-- != 0)
        continue;
      std::string what = fmt::format("rank {}: drop {}", plan.rank, str(plan, plan.commands[i]));
      eraseCommand(plan, i);
      return what;
    }
  return std::nullopt;
}

SiteText dropSignal(Plans &plans, size_t k) { return dropCommand(plans, CommandKind::Signal, k); }
SiteText dropGemm(Plans &plans, size_t k) { return dropCommand(plans, CommandKind::Matmul, k); }
SiteText dropAwait(Plans &plans, size_t k) { return dropCommand(plans, CommandKind::Await, k); }
SiteText dropEventWait(Plans &plans, size_t k) {
  return dropCommand(plans, CommandKind::WaitEvent, k);
}

/// Returns all Plans if `isAll` is set, and otherwise only the Plan of rank 0. If a mutation
/// changes all Plans, the ranks remain equivalent.
llvm::MutableArrayRef<Plan> firstOrAll(Plans &plans, bool isAll) {
  return llvm::MutableArrayRef(plans).take_front(isAll ? plans.size() : 1);
}

const char *whereOf(bool isAll) { return isAll ? " on all ranks" : ""; }

/// Swaps a command with the next one.
SiteText swapCommands(Plans &plans, size_t k) {
  const bool isAll = k % 2 != 0;
  const size_t i = k / 2;
  const Plan first = plans[0];
  if (i + 1 >= first.commands.size())
    return std::nullopt;
  for (Plan &plan : firstOrAll(plans, isAll))
    if (i + 1 < plan.commands.size())
      std::swap(plan.commands[i], plan.commands[i + 1]);
  return fmt::format("{} after {}{}", str(first, first.commands[i]),
                     str(first, first.commands[i + 1]), whereOf(isAll));
}

/// Moves a command to the next stream.
SiteText moveCommand(Plans &plans, size_t k) {
  const bool isAll = k % 2 != 0;
  const size_t i = k / 2;
  const Plan first = plans[0];
  const auto streams = static_cast<uint32_t>(first.streams.size());
  if (i >= first.commands.size() || streams == 1)
    return std::nullopt;
  for (Plan &plan : firstOrAll(plans, isAll))
    if (i < plan.commands.size() && plan.streams.size() == streams)
      plan.commands[i].stream = (plan.commands[i].stream + 1) % streams;
  return fmt::format("{} goes to {}{}", str(first, first.commands[i]),
                     first.streams[plans[0].commands[i].stream], whereOf(isAll));
}

/// Makes an endpoint await the next endpoint's flag.
SiteText shareFlag(Plans &plans, size_t k) {
  for (Plan &plan : plans) {
    if (k >= plan.endpoints.size()) {
      k -= plan.endpoints.size();
      continue;
    }
    if (plan.endpoints.size() == 1)
      return "";
    Endpoint &own = plan.endpoints[k];
    own.flag = plan.endpoints[(k + 1) % plan.endpoints.size()].flag;
    return fmt::format("rank {}: {} uses flag {}, too", plan.rank, describeOrigin(plan, own.origin),
                       own.flag);
  }
  return std::nullopt;
}

bool isInArena(const PlanBuffer &buffer) {
  return buffer.kind == BufferKind::Symmetric || buffer.kind == BufferKind::Device;
}

void growArena(Plan &plan, const PlanBuffer &buffer) {
  int64_t &bytes = buffer.kind == BufferKind::Symmetric ? plan.symmetricBytes : plan.deviceBytes;
  bytes = std::max(bytes, buffer.offset + buffer.bytes);
}

/// Moves the second of two buffers to the address of the first, on one rank or on all.
SiteText shareMemory(Plans &plans, size_t k) {
  const size_t variants = plans.size() + 1;
  const size_t chosen = k % variants, pair = k / variants;
  size_t seen = 0;
  const std::vector<PlanBuffer> &buffers = plans[0].buffers;
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t j = i + 1; j < buffers.size(); ++j) {
      if (!isInArena(buffers[i]) || buffers[i].kind != buffers[j].kind || seen++ != pair)
        continue;
      std::string what = fmt::format("%{} and %{} share memory", buffers[i].name, buffers[j].name);
      for (Plan &plan : plans)
        if (chosen == plans.size() || static_cast<size_t>(plan.rank) == chosen) {
          plan.buffers[j].offset = plan.buffers[i].offset;
          growArena(plan, plan.buffers[j]);
        }
      return what + (chosen == plans.size() ? "" : fmt::format(" on rank {}", chosen));
    }
  return std::nullopt;
}

/// Omits the first or the last part of a sum.
SiteText dropPart(Plans &plans, size_t k) {
  for (Plan &plan : plans) {
    if (k / 2 >= plan.sums.size()) {
      k -= 2 * plan.sums.size();
      continue;
    }
    PlanSum &sum = plan.sums[k / 2];
    if (sum.count == 1)
      return "";
    --sum.count;
    sum.parts.bytes -= sum.stride;
    if (k % 2 == 0)
      sum.parts.offset += sum.stride;
    return fmt::format("rank {}: sum {} lacks its {} part", plan.rank, k / 2,
                       k % 2 == 0 ? "first" : "last");
  }
  return std::nullopt;
}

/// Omits the handle exchange of the last channels, on one rank or on all ranks.
SiteText dropExchange(Plans &plans, size_t k) {
  const size_t variants = plans.size() + 1;
  const size_t chosen = k % variants;
  const auto channels = static_cast<uint32_t>(k / variants);
  if (channels >= plans[0].channels)
    return std::nullopt;
  for (Plan &plan : plans)
    if (chosen == plans.size() || static_cast<size_t>(plan.rank) == chosen)
      plan.channels = channels;
  return fmt::format("channels from {} on are not shared{}", channels,
                     chosen == plans.size() ? "" : fmt::format(" on rank {}", chosen));
}

} // namespace

llvm::ArrayRef<PlanMutation> planMutations() {
  static const PlanMutation mutations[] = {
      {"plan: drop a signal", dropSignal},
      {"plan: drop an await", dropAwait},
      {"plan: drop a wait for an event", dropEventWait},
      {"plan: drop a GEMM", dropGemm},
      {"plan: swap two commands", swapCommands},
      {"plan: move a command's stream", moveCommand},
      {"plan: use one flag twice", shareFlag},
      {"plan: let two buffers share memory", shareMemory},
      {"plan: drop a handle exchange", dropExchange},
      {"plan: drop a part of a sum", dropPart},
  };
  return mutations;
}

} // namespace braid::test
