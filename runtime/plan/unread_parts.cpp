//===- runtime/plan/unread_parts.cpp - partial results that only their sum reads --------------===//

#include "runtime/plan/unread_parts.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

bool overlap(const Range &a, const Range &b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// All that is read, but for the parts of sums.
std::vector<Range> rangesRead(const Plan &plan) {
  std::vector<Range> read;
  for (const Command &command : plan.commands) {
    if (command.kind == CommandKind::Copy || command.kind == CommandKind::Add)
      read.push_back(command.src);
    if (command.kind == CommandKind::Add)
      read.push_back(command.dst);
  }
  for (const PlanMatmul &matmul : plan.matmuls)
    read.insert(read.end(), {matmul.a, matmul.b, matmul.bias, matmul.addend});
  for (const PlanSum &sum : plan.sums)
    read.push_back(sum.bias);
  for (const PlanPointwise &pointwise : plan.pointwise)
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      read.push_back(operand.range);
  for (const PlanCollective &collective : plan.collectives)
    read.push_back(collective.src);
  for (const PlanGroup &group : plan.groups)
    for (const PlanMessage &message : group)
      if (message.direction == Direction::Send)
        read.push_back(message.range);
  for (const Endpoint &endpoint : plan.endpoints)
    if (endpoint.direction == Direction::Send)
      read.push_back(endpoint.range);
  return read;
}

} // namespace

void markUnreadParts(Plan &plan) {
  if (plan.sums.empty())
    return;
  const std::vector<Range> read = rangesRead(plan);
  for (PlanSum &sum : plan.sums) {
    std::vector<Range> readHere;
    llvm::copy_if(read, std::back_inserter(readHere),
                  [&](const Range &range) { return overlap(range, sum.parts); });
    sum.keepsParts = llvm::any_of(plan.commands, [&](const Command &command) {
      return command.kind == CommandKind::Copy && overlap(command.dst, sum.parts) &&
             llvm::any_of(readHere,
                          [&](const Range &range) { return overlap(range, command.dst); });
    });
  }
}

} // namespace braid
