//===- runtime/check/access.cpp - the bytes an event touches ----------------------------------===//

#include "runtime/check/access.h"

#include <fmt/format.h>

namespace braid::checker {

Operands operandsOf(const Plan &plan, const Command &command) {
  Operands operands;
  auto add = [&](const Range &range, bool isWrite) {
    if (range.bytes != 0)
      operands.push_back({range, isWrite});
  };
  switch (command.kind) {
  case CommandKind::Copy:
    add(command.src, false);
    add(command.dst, true);
    break;
  case CommandKind::Matmul: {
    const PlanMatmul &m = plan.matmuls[command.matmul];
    add(m.a, false);
    add(m.b, false);
    add(m.bias, false);
    add(m.addend, false);
    add(m.c, true);
    break;
  }
  case CommandKind::Sum: {
    const PlanSum &sum = plan.sums[command.sum];
    for (int64_t i = 0; i < sum.count; ++i)
      add(sum.part(i), false);
    add(sum.bias, false);
    add(sum.dst, true);
    break;
  }
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      add(operand.range, false);
    add(pointwise.dst, true);
    break;
  }
  case CommandKind::Group:
  case CommandKind::Collective: // spelled out in front of it
    add({static_cast<uint32_t>(plan.buffers.size()) - 1, 0, 1}, true);
    break;
  default:
    break;
  }
  return operands;
}

Place placeOf(const Plan &plan, const Range &range) {
  const PlanBuffer &b = plan.buffers[range.buffer];
  const auto rank = static_cast<uint32_t>(plan.rank);
  if (b.kind == BufferKind::Input || b.kind == BufferKind::Output)
    return {{rank, b.kind, static_cast<uint32_t>(b.offset)},
            range.buffer,
            range.offset,
            range.offset + range.bytes};
  const int64_t begin = b.offset + range.offset;
  return {{rank, b.kind, 0}, range.buffer, begin, begin + range.bytes};
}

Place placeOf(const History &history, const Event &event, const Range &range, uint32_t endpoint) {
  const Plan &plan = history.plan(event);
  if (range.buffer != kPeerBuffer)
    return placeOf(plan, range);
  const Plan &peer = history.plans()[static_cast<size_t>(plan.endpoints[endpoint].peer)];
  const Range &other = peer.endpoints[history.partner(event.rank, endpoint)].range;
  return placeOf(peer, {other.buffer, other.offset, range.bytes});
}

/// `withPeers`: also what it does to a peer's memory.
static Accesses accessesOf(const History &history, const Event &event, bool withPeers) {
  const Plan &plan = history.plan(event);
  Accesses accesses;
  auto addWhole = [&](uint32_t buffer, bool isWrite) {
    accesses.push_back({placeOf(plan, {buffer, 0, plan.buffers[buffer].bytes}), isWrite});
  };
  switch (event.kind) {
  case EventKind::CallerWrites:
    for (uint32_t buffer : plan.inputs)
      addWhole(buffer, true);
    for (uint32_t buffer : plan.outputs)
      addWhole(buffer, true); // it may have cleared them
    break;
  case EventKind::CallerReads:
    for (uint32_t buffer : plan.outputs)
      addWhole(buffer, false);
    break;
  case EventKind::Release:
    addWhole(plan.releases[event.index].buffer, true);
    break;
  case EventKind::Command: {
    const Command &command = history.command(event);
    for (const Operand &operand : operandsOf(plan, command))
      if (withPeers || operand.range.buffer != kPeerBuffer)
        accesses.push_back(
            {placeOf(history, event, operand.range, command.endpoint), operand.isWrite});
    break;
  }
  }
  return accesses;
}

Accesses accessesOf(const History &history, const Event &event) {
  return accessesOf(history, event, true);
}

Accesses ownAccessesOf(const History &history, const Event &event) {
  return accessesOf(history, event, false);
}

std::string str(const History &history, const Place &place) {
  const PlanBuffer &buffer = history.plans()[place.memory.rank].buffers[place.buffer];
  bool isCallers = buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output;
  int64_t base = isCallers ? 0 : buffer.offset;
  return fmt::format("%{} of rank {}, bytes [{} .. {})", buffer.name, place.memory.rank,
                     place.begin - base, place.end - base);
}

} // namespace braid::checker
