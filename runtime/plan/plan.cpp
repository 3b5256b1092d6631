//===- runtime/plan/plan.cpp - Plans as text --------------------------------------------------===//

#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace braid {

llvm::StringRef name(CommandKind kind) {
  static constexpr llvm::StringLiteral kNames[] = {"copy",   "matmul",    "sum",    "pointwise",
                                                   "signal", "await",     "record", "wait_event",
                                                   "group",  "collective"};
  static_assert(std::size(kNames) == static_cast<size_t>(CommandKind::Collective) + 1);
  return kNames[static_cast<size_t>(kind)];
}

std::vector<PlanPointwise::Operand> PlanPointwise::operands() const {
  std::vector<Operand> all = {first};
  for (const PointwiseStep<Operand> &step : steps)
    if (isBinary(step.function))
      all.push_back(step.operand);
  return all;
}

std::string gemmKey(const PlanMatmul &gemm) {
  return fmt::format("GEMM {} {}x{}x{}{}{}{}{}{}", name(gemm.dtype).str(), gemm.m, gemm.n, gemm.k,
                     gemm.partial ? " to " + name(*gemm.partial).str() : "",
                     gemm.transposeB ? " bT" : "", gemm.bias.bytes != 0 ? " bias" : "",
                     gemm.addend.bytes != 0 ? " add" : "", gemm.overlaps ? " overlapped" : "");
}

std::vector<const PlanMatmul *> distinctGemms(const Plan &plan) {
  std::vector<const PlanMatmul *> gemms;
  std::set<std::string> seen;
  for (const PlanMatmul &gemm : plan.matmuls)
    if (seen.insert(gemmKey(gemm)).second)
      gemms.push_back(&gemm);
  return gemms;
}

void forEachOperand(
    const Plan &plan, const Command &command,
    llvm::function_ref<void(const Range &range, Access access, OperandRole role)> fn) {
  auto read = [&](const Range &range, OperandRole role = OperandRole::Input) {
    if (range.bytes != 0)
      fn(range, Access::Read, role);
  };
  auto write = [&](const Range &range) {
    if (range.bytes != 0)
      fn(range, Access::Write, OperandRole::Result);
  };
  switch (command.kind) {
  case CommandKind::Copy:
    read(command.src);
    return write(command.dst);
  case CommandKind::Matmul: {
    const PlanMatmul &gemm = plan.matmuls[command.matmul];
    read(gemm.a);
    read(gemm.b);
    read(gemm.bias, OperandRole::Bias);
    read(gemm.addend, OperandRole::Addend);
    return write(gemm.c);
  }
  case CommandKind::Sum: {
    const PlanSum &sum = plan.sums[command.sum];
    for (int64_t i = 0; i < sum.count; ++i)
      read(sum.part(i), OperandRole::Part);
    read(sum.bias, OperandRole::Bias);
    return write(sum.dst);
  }
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      read(operand.range);
    return write(pointwise.dst);
  }
  case CommandKind::Group:
    for (const PlanMessage &message : plan.groups[command.group])
      if (message.direction == Direction::Send)
        read(message.range);
    for (const PlanMessage &message : plan.groups[command.group])
      if (message.direction == Direction::Receive)
        write(message.range);
    return;
  case CommandKind::Collective:
    read(plan.collectives[command.collective].src);
    return write(plan.collectives[command.collective].dst);
  case CommandKind::Signal:
  case CommandKind::Await:
  case CommandKind::Record:
  case CommandKind::WaitEvent:
    return;
  }
}

void shrinkToFit(Plan &plan) {
  auto shrink = [](auto &...lists) { (lists.shrink_to_fit(), ...); };
  shrink(plan.buffers, plan.inputs, plan.outputs, plan.streams, plan.endpoints, plan.matmuls,
         plan.sums, plan.pointwise, plan.groups, plan.collectives, plan.commands, plan.releases,
         plan.sites, plan.origins, plan.trips);
}

uint32_t numberCommands(std::vector<Plan> &plans, uint32_t first) {
  uint32_t count = 0;
  for (Plan &plan : plans) {
    plan.firstCommand = first;
    count = std::max(count, static_cast<uint32_t>(plan.commands.size()));
  }
  return first + count;
}

std::string place(const Plan &plan, uint32_t origin) {
  const Site &site = plan.sites[plan.origins[origin].site];
  if (!site.location.isKnown())
    return fmt::format("@{}", plan.program);
  return fmt::format("{}:{}:{}", plan.sourceName, site.location.line, site.location.column);
}

uint32_t lineOf(const Plan &plan, uint32_t origin) {
  return plan.sites[plan.origins[origin].site].location.line;
}

std::string describeOrigin(const Plan &plan, uint32_t origin) {
  const Origin &at = plan.origins[origin];
  std::string text = fmt::format("\"{}\"", plan.sites[at.site].text);
  if (at.tripCount != 0) {
    llvm::ArrayRef<int64_t> trips(plan.trips.data() + at.firstTrip, at.tripCount);
    text += fmt::format(" (trip {})", fmt::join(trips.begin(), trips.end(), ", "));
  }
  return text + " at " + place(plan, origin);
}

namespace {

std::string str(const Plan &plan, const Range &range, const Endpoint *endpoint) {
  if (range.buffer == kPeerBuffer)
    return fmt::format("rank {}'s side", endpoint->peer);
  return fmt::format("%{}[{} .. {})", plan.buffers[range.buffer].name, range.offset,
                     range.offset + range.bytes);
}

std::string str(const Plan &plan, const PlanGroup &group) {
  std::vector<std::string> messages;
  for (const PlanMessage &message : group) {
    const bool sends = message.direction == Direction::Send;
    messages.push_back(fmt::format("{} {} {} rank {}", sends ? "send" : "recv",
                                   str(plan, message.range, nullptr), sends ? "to" : "from",
                                   message.peer));
  }
  return fmt::format("{}", fmt::join(messages, ", "));
}

std::string str(const Plan &plan, const PlanCollective &collective) {
  const std::string operation =
      collective.reduction ? " " + name(*collective.reduction).str() : std::string();
  const std::string root =
      collective.root < 0 ? std::string() : fmt::format(", root {}", collective.root);
  return fmt::format("{}{} {} <- {}, team [{}]{}", name(collective.kind).str(), operation,
                     str(plan, collective.dst, nullptr), str(plan, collective.src, nullptr),
                     fmt::join(collective.team, ", "), root);
}

std::string operandsOf(const Plan &plan, const Command &command) {
  const Endpoint *endpoint =
      command.endpoint == kNone ? nullptr : &plan.endpoints[command.endpoint];
  switch (command.kind) {
  case CommandKind::Copy:
    return fmt::format("{} <- {}", str(plan, command.dst, endpoint),
                       str(plan, command.src, endpoint));
  case CommandKind::Matmul: {
    const PlanMatmul &gemm = plan.matmuls[command.matmul];
    std::string added;
    for (const Range &range : {gemm.bias, gemm.addend})
      if (range.bytes != 0)
        added += " + " + str(plan, range, nullptr);
    return fmt::format("{} <- {} * {}{}{} ({}x{}x{} {})", str(plan, gemm.c, endpoint),
                       str(plan, gemm.a, nullptr), str(plan, gemm.b, nullptr),
                       gemm.transposeB ? "^T" : "", added, gemm.m, gemm.n, gemm.k,
                       name(gemm.dtype).str());
  }
  case CommandKind::Sum: {
    const PlanSum &sum = plan.sums[command.sum];
    std::string bias = sum.bias.bytes != 0 ? " + " + str(plan, sum.bias, nullptr) : std::string();
    return fmt::format("{} <- {} parts of {} every {} bytes from {}{}", str(plan, sum.dst, nullptr),
                       sum.count, name(sum.partial).str(), sum.stride,
                       str(plan, sum.part(0), nullptr), bias);
  }
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    return fmt::format(
        "{} <- {}", str(plan, pointwise.dst, nullptr),
        strChain(pointwise.first, pointwise.steps, [&](const PlanPointwise::Operand &operand) {
          return str(plan, operand.range, nullptr);
        }));
  }
  case CommandKind::Group:
    return str(plan, plan.groups[command.group]);
  case CommandKind::Collective:
    return str(plan, plan.collectives[command.collective]);
  case CommandKind::Signal:
    return fmt::format("rank {}, endpoint {}", endpoint->peer, command.endpoint);
  case CommandKind::Await:
    return fmt::format("flag {} from rank {}", endpoint->flag, endpoint->peer);
  case CommandKind::Record:
  case CommandKind::WaitEvent:
    return fmt::format("event {}", command.event);
  }
  llvm_unreachable("covered above");
}

} // namespace

std::string str(const Plan &plan, const Command &command) {
  return fmt::format("{:<10} {:<10} {}", plan.streams[command.stream], name(command.kind).str(),
                     operandsOf(plan, command));
}

std::string str(const Plan &plan) {
  std::string text = fmt::format("plan @{} rank {} of {}", plan.program, plan.rank, plan.ranks);
  text += plan.hosts() > 1 ? fmt::format(", host {} of {}\n", plan.hostOf(plan.rank), plan.hosts())
                           : "\n";
  text += fmt::format("  symmetric {} bytes, device {} bytes, {} flags, {} events, {} streams\n",
                      plan.symmetricBytes, plan.deviceBytes, plan.flags, plan.events,
                      plan.streams.size());
  for (size_t i = 0; i < plan.commands.size(); ++i)
    text += fmt::format("  {:>5}  {}\n", i, str(plan, plan.commands[i]));
  return text;
}

} // namespace braid
