//===- runtime/check/access.cpp - the bytes an event touches ----------------------------------===//

#include "runtime/check/access.h"

#include <fmt/format.h>

namespace braid::checker {
namespace {

Place localPlace(const Plan &plan, uint32_t buffer, int64_t begin, int64_t bytes) {
  const PlanBuffer &b = plan.buffers[buffer];
  auto rank = static_cast<uint32_t>(plan.rank);
  if (b.kind == BufferKind::Input || b.kind == BufferKind::Output)
    return {{rank, b.kind, static_cast<uint32_t>(b.offset)}, buffer, begin, begin + bytes};
  return {{rank, b.kind, 0}, buffer, b.offset + begin, b.offset + begin + bytes};
}

void addCommand(const History &history, const Event &event, Accesses &accesses) {
  const Command &command = history.command(event);
  auto add = [&](const Range &range, bool isWrite) {
    if (range.bytes != 0)
      accesses.push_back({placeOf(history, event, range, command.endpoint), isWrite});
  };
  switch (command.kind) {
  case CommandKind::Copy:
    add(command.src, false);
    add(command.dst, true);
    return;
  case CommandKind::Add:
    add(command.src, false);
    add(command.dst, false);
    add(command.dst, true);
    return;
  case CommandKind::Matmul: {
    const PlanMatmul &m = history.plan(event).matmuls[command.matmul];
    add(m.a, false);
    add(m.b, false);
    add(m.bias, false);
    add(m.c, true);
    return;
  }
  case CommandKind::Sum: {
    const PlanSum &sum = history.plan(event).sums[command.sum];
    for (int64_t i = 0; i < sum.count; ++i)
      add(sum.part(i), false);
    add(sum.bias, false);
    add(sum.dst, true);
    return;
  }
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = history.plan(event).pointwise[command.pointwise];
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      add(operand.range, false);
    add(pointwise.dst, true);
    return;
  }
  case CommandKind::Group:
  case CommandKind::Collective: // spelled out in front of it
    return add({static_cast<uint32_t>(history.plan(event).buffers.size()) - 1, 0, 1}, true);
  default:
    return;
  }
}

} // namespace

Place placeOf(const History &history, const Event &event, const Range &range, uint32_t endpoint) {
  const Plan &plan = history.plan(event);
  if (range.buffer != kPeerBuffer)
    return localPlace(plan, range.buffer, range.offset, range.bytes);
  const Plan &peer = history.plans()[static_cast<size_t>(plan.endpoints[endpoint].peer)];
  const Range &other = peer.endpoints[history.partner(event.rank, endpoint)].range;
  return localPlace(peer, other.buffer, other.offset, range.bytes);
}

Accesses accessesOf(const History &history, EventId id) {
  const Event &event = history.event(id);
  const Plan &plan = history.plan(event);
  Accesses accesses;
  auto addWhole = [&](uint32_t buffer, bool isWrite) {
    accesses.push_back({localPlace(plan, buffer, 0, plan.buffers[buffer].bytes), isWrite});
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
  case EventKind::Command:
    addCommand(history, event, accesses);
    break;
  }
  return accesses;
}

std::string str(const History &history, const Place &place) {
  const PlanBuffer &buffer = history.plans()[place.memory.rank].buffers[place.buffer];
  bool isCallers = buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output;
  int64_t base = isCallers ? 0 : buffer.offset;
  return fmt::format("%{} of rank {}, bytes [{} .. {})", buffer.name, place.memory.rank,
                     place.begin - base, place.end - base);
}

} // namespace braid::checker
