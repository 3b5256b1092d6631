//===- runtime/check/access.cpp - the bytes that an event accesses ----------------------------===//

#include "runtime/check/access.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::checker {

/// The expansion of a group or collective precedes the command itself, which then represents only
/// the use of the communicators. This use is modeled as a write to the last buffer.
Operands operandsOf(const Plan &plan, const Command &command) {
  if (command.kind == CommandKind::Group || command.kind == CommandKind::Collective)
    return {{{static_cast<uint32_t>(plan.buffers.size()) - 1, 0, 1}, true}};
  Operands operands;
  forEachOperand(plan, command, [&](const Range &range, braid::Access access, OperandRole) {
    operands.push_back({range, access == braid::Access::Write});
  });
  return operands;
}

std::optional<Place> common(const Place &a, const Place &b) {
  const int64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  return a.memory == b.memory && begin < end ? std::optional(Place{a.memory, a.buffer, begin, end})
                                             : std::nullopt;
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

static Accesses accessesOfCaller(const Plan &plan, EventKind kind) {
  Accesses accesses;
  auto addAll = [&](llvm::ArrayRef<uint32_t> buffers, bool isWrite) {
    for (uint32_t buffer : buffers)
      accesses.push_back({placeOf(plan, {buffer, 0, plan.buffers[buffer].bytes}), isWrite});
  };
  const bool writes = kind == EventKind::CallerWrites;
  if (writes)
    addAll(plan.inputs, true);
  addAll(plan.outputs, writes); // the caller may have cleared them
  return accesses;
}

Accesses accessesOf(const History &history, const Event &event, bool withPeers) {
  const Plan &plan = history.plan(event);
  if (event.kind == EventKind::Release) {
    const uint32_t buffer = plan.releases[event.index].buffer;
    return {{placeOf(plan, {buffer, 0, plan.buffers[buffer].bytes}), true}};
  }
  if (event.kind != EventKind::Command)
    return accessesOfCaller(plan, event.kind);
  Accesses accesses;
  const Command &command = history.command(event);
  for (const Operand &operand : operandsOf(plan, command))
    if (withPeers || !operand.isPeers())
      accesses.push_back(
          {placeOf(history, event, operand.range, command.endpoint), operand.isWrite});
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
