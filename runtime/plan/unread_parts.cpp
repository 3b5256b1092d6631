//===- runtime/plan/unread_parts.cpp - finds partial results that only a sum reads ------------===//
//
// A kernel that adds parts while copying them need not store the parts. Storing them would cause as
// much memory traffic as the sum itself.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/plan/specializer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace braid {
namespace {

/// Returns the ranges that this rank or a peer reads, except as parts of a sum.
llvm::SmallVector<Range> rangesRead(const Plan &plan) {
  llvm::SmallVector<Range> read;
  for (const Command &command : plan.commands)
    forEachOperand(plan, command, [&](const Range &range, Access access, OperandRole role) {
      if (access == Access::Read && role != OperandRole::Part)
        read.push_back(range);
    });
  for (const Endpoint &endpoint : plan.endpoints)
    if (endpoint.direction == Direction::Send)
      read.push_back(endpoint.range);
  return read;
}

bool takesPartOf(const PlanSum &sum, const Range &range) {
  for (int64_t part = 0; part < sum.count; ++part)
    if (overlap(sum.part(part), range))
      return true;
  return false;
}

} // namespace

void markUnreadParts(Plan &plan) {
  if (plan.sums.empty())
    return;
  const llvm::SmallVector<Range> read = rangesRead(plan);
  for (PlanSum &sum : plan.sums)
    sum.keepsParts = false;
  for (const Command &command : plan.commands) {
    if (command.kind != CommandKind::Copy || command.dst.buffer == kPeerBuffer)
      continue;
    llvm::SmallVector<PlanSum *> adding;
    for (PlanSum &sum : plan.sums)
      if (takesPartOf(sum, command.dst))
        adding.push_back(&sum);
    auto isIn = [&](const Range &range) { return overlap(range, command.dst); };
    const bool isOutput = plan.buffers[command.dst.buffer].kind == BufferKind::Output;
    if (!adding.empty() && (isOutput || adding.size() > 1 || llvm::any_of(read, isIn)))
      for (PlanSum *sum : adding)
        sum->keepsParts = true;
  }
}

} // namespace braid
