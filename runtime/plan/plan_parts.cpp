//===- runtime/plan/plan_parts.cpp - isolates the GEMMs or the transfers of a Plan ------------===//

#include "runtime/plan/plan_parts.h"

#include "runtime/plan/arena.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace braid {
namespace {

bool orders(CommandKind kind) {
  return kind == CommandKind::Record || kind == CommandKind::WaitEvent;
}

void keepCommands(Plan &plan, llvm::function_ref<bool(CommandKind)> isWanted) {
  rewriteCommands(plan, [&](const Command &command, std::vector<Command> &kept) {
    if (orders(command.kind) || isWanted(command.kind))
      kept.push_back(command);
  });
}

/// Redirects each GEMM that stores its result in peer memory to a local buffer, and adds a copy
/// that sends the result from there.
void storeHere(Plan &plan) {
  ArenaLayout arena;
  arena.allocate(plan.deviceBytes, 0);
  rewriteCommands(plan, [&](const Command &command, std::vector<Command> &made) {
    made.push_back(command);
    if (command.kind != CommandKind::Matmul || command.endpoint == kNone)
      return;
    Endpoint &endpoint = plan.endpoints[command.endpoint];
    const int64_t bytes = endpoint.range.bytes;
    Command copy = command;
    copy.kind = CommandKind::Copy;
    copy.matmul = kNone;
    copy.dst = endpoint.range;
    copy.src = {static_cast<uint32_t>(plan.buffers.size()), 0, bytes};
    plan.buffers.push_back({BufferKind::Device, bytes, arena.allocate(bytes, 0), "sent"});
    plan.matmuls[command.matmul].c = endpoint.range = copy.src;
    made.back().endpoint = kNone;
    made.push_back(copy);
  });
  plan.deviceBytes = arena.size();
}

/// Turns arena buffers into arguments provided by the caller.
void becomeArguments(Plan &plan) {
  std::set<uint32_t> written;
  for (const Command &command : plan.commands)
    forEachOperand(plan, command, [&](const Range &range, Access access, OperandRole) {
      if (access == Access::Write)
        written.insert(range.buffer);
    });
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    PlanBuffer &buffer = plan.buffers[i];
    if (buffer.kind != BufferKind::Symmetric && buffer.kind != BufferKind::Device)
      continue;
    std::vector<uint32_t> &arguments = written.count(i) ? plan.outputs : plan.inputs;
    buffer.kind = written.count(i) ? BufferKind::Output : BufferKind::Input;
    buffer.offset = static_cast<int64_t>(arguments.size());
    arguments.push_back(i);
  }
  plan.symmetricBytes = plan.deviceBytes = 0;
}

} // namespace

void rewriteCommands(Plan &plan, AddCommand add) {
  std::vector<Command> made;
  auto release = plan.releases.begin();
  for (uint32_t i = 0; i <= plan.commands.size(); ++i) {
    for (; release != plan.releases.end() && release->beforeCommand == i; ++release)
      release->beforeCommand = static_cast<uint32_t>(made.size());
    if (i < plan.commands.size())
      add(plan.commands[i], made);
  }
  plan.commands = std::move(made);
}

Plan gemmsOf(Plan plan) {
  storeHere(plan);
  keepCommands(plan, [](CommandKind kind) {
    return kind == CommandKind::Matmul || kind == CommandKind::Pointwise;
  });
  plan.endpoints.clear();
  plan.groups.clear();
  plan.collectives.clear();
  plan.teams.clear();
  plan.channels = plan.flags = 0;
  plan.releases.clear(); // the arenas are now empty
  becomeArguments(plan);
  return plan;
}

Plan transfersAlone(Plan plan) {
  storeHere(plan);
  keepCommands(plan, [](CommandKind kind) {
    return kind == CommandKind::Copy || kind == CommandKind::Sum || kind == CommandKind::Signal ||
           kind == CommandKind::Await || kind == CommandKind::Group ||
           kind == CommandKind::Collective;
  });
  plan.matmuls.clear();
  plan.pointwise.clear();
  return plan;
}

} // namespace braid
