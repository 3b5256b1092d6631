//===- runtime/plan/plan_parts.cpp - the GEMMs of a Plan alone, and its transfers alone -------===//

#include "runtime/plan/plan_parts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <set>

namespace braid {
namespace {

bool orders(CommandKind kind) {
  return kind == CommandKind::Record || kind == CommandKind::WaitEvent;
}

/// Buffers end where they did: before the command that now stands there.
void keepCommands(Plan &plan, llvm::function_ref<bool(CommandKind)> isWanted) {
  std::vector<Command> kept;
  auto release = plan.releases.begin();
  for (uint32_t i = 0; i <= plan.commands.size(); ++i) {
    for (; release != plan.releases.end() && release->beforeCommand == i; ++release)
      release->beforeCommand = static_cast<uint32_t>(kept.size());
    if (i < plan.commands.size() &&
        (orders(plan.commands[i].kind) || isWanted(plan.commands[i].kind)))
      kept.push_back(plan.commands[i]);
  }
  plan.commands = std::move(kept);
}

void dropPreparation(Plan &plan, PrepareKind kind) {
  llvm::erase_if(plan.preparation, [&](const PrepareAction &step) { return step.kind == kind; });
}

/// Gives what lay in an arena to the caller.
void becomeArguments(Plan &plan) {
  std::set<uint32_t> written;
  for (const PlanMatmul &matmul : plan.matmuls)
    written.insert(matmul.c.buffer);
  for (const PlanPointwise &pointwise : plan.pointwise)
    written.insert(pointwise.dst.buffer);
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

Plan gemmsOf(Plan plan) {
  keepCommands(plan, [](CommandKind kind) {
    return kind == CommandKind::Matmul || kind == CommandKind::Pointwise;
  });
  dropPreparation(plan, PrepareKind::Share);
  plan.endpoints.clear();
  plan.flags = 0;
  plan.releases.clear(); // arenas are empty
  becomeArguments(plan);
  return plan;
}

Plan transfersOf(Plan plan) {
  keepCommands(plan, [](CommandKind kind) {
    return kind == CommandKind::Copy || kind == CommandKind::Add || kind == CommandKind::Sum ||
           kind == CommandKind::Signal || kind == CommandKind::Await;
  });
  dropPreparation(plan, PrepareKind::Warm);
  plan.matmuls.clear();
  plan.pointwise.clear();
  return plan;
}

} // namespace braid
