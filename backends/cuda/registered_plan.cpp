//===- backends/cuda/registered_plan.cpp - a GPU's resources for a Plan -----------------------===//

#include "backends/cuda/registered_plan.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Returns the workspace bytes that each stream's GEMMs need with their current algorithms.
std::vector<int64_t> workspacesFor(const Plan &plan, const Gemms &gemms) {
  std::vector<int64_t> workspaces(plan.streams.size(), 0);
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Matmul)
      workspaces[command.stream] = std::max(
          workspaces[command.stream], aligned(gemms.workspaceBytes(plan.matmuls[command.matmul])));
  return workspaces;
}

} // namespace

RegisteredPlan::RegisteredPlan(const Plan &itsPlan) : plan(&itsPlan), steps(itsPlan) {
  isUsed.resize(itsPlan.streams.size());
  for (const Command &command : itsPlan.commands)
    isUsed[command.stream] = true;
}

Status RegisteredPlan::allocateForGraphs(CudaMemory &memory, const Gemms &gemms) {
  constexpr int64_t kCounterBytes = cuda::CopyAndSignal::kCounters * sizeof(uint32_t);
  const int64_t counters = aligned(kCounterBytes * static_cast<int64_t>(plan->streams.size()));
  int64_t bytes = kAlignment + counters;
  for (int64_t each : workspacesFor(*plan, gemms)) {
    ofGraphs.workspaces.push_back({nullptr, static_cast<size_t>(each)});
    bytes += each;
  }
  auto *base = static_cast<char *>(BRAID_TRY(memory.allocate(ArenaKind::Private, bytes)));
  ofGraphs.memory = base;
  ofGraphs.guard.counts = reinterpret_cast<uint32_t *>(base);
  ofGraphs.counters = reinterpret_cast<uint32_t *>(base + kAlignment);
  base += kAlignment + counters;
  for (Workspace &workspace : ofGraphs.workspaces) {
    workspace.data = base;
    base += workspace.bytes;
  }
  static_assert(sizeof(cuda::RunReport) <= sizeof(StepWord));
  const auto reports = static_cast<int64_t>((1 + plan->streams.size()) * sizeof(StepWord));
  void *report = BRAID_TRY(memory.allocateReports(reports));
  ofGraphs.guard.report = static_cast<cuda::RunReport *>(report);
  steps.words = static_cast<StepWord *>(report) + 1;
  return Status::ok();
}

Status RegisteredPlan::growWorkspaces(CudaMemory &memory, const Gemms &gemms) {
  const std::vector<int64_t> needed = workspacesFor(*plan, gemms);
  for (size_t stream = 0; stream < needed.size(); ++stream) {
    const auto bytes = static_cast<size_t>(needed[stream]);
    if (bytes <= ofGraphs.workspaces[stream].bytes)
      continue;
    ofGraphs.larger.push_back(BRAID_TRY(memory.allocate(ArenaKind::Private, needed[stream])));
    ofGraphs.workspaces[stream] = {ofGraphs.larger.back(), bytes};
  }
  return Status::ok();
}

void RegisteredPlan::releaseForGraphs(CudaMemory &memory) const {
  memory.release(ofGraphs.memory);
  for (void *larger : ofGraphs.larger)
    memory.release(larger);
  memory.release(ofGraphs.guard.report);
}

int64_t RegisteredPlan::workspaceBytes() const {
  size_t bytes = 0;
  for (const Workspace &workspace : ofGraphs.workspaces)
    bytes += workspace.bytes;
  return static_cast<int64_t>(bytes);
}

// -- Runs that the guard counts. --

bool RegisteredPlan::isRunning() const {
  cuda::RunReport &report = *ofGraphs.guard.report;
  return look(report.begun) != look(report.ended);
}

uint32_t RegisteredPlan::endedRuns() const { return look(ofGraphs.guard.report->ended); }

bool RegisteredPlan::hasOverlapped() const { return look(ofGraphs.guard.report->overlapped) != 0; }

void RegisteredPlan::countBegun(uint64_t runs) const {
  if (begunRuns)
    begunRuns->fetch_add(runs, std::memory_order_relaxed);
}

void RegisteredPlan::countCallersRuns() {
  const uint32_t begun = look(ofGraphs.guard.report->begun);
  // the host announces runs before it launches them
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint32_t told = guarded.load(std::memory_order_relaxed);
  const auto callers = static_cast<int32_t>(begun - told);
  const int32_t more = callers - static_cast<int32_t>(ofCallers);
  if (more <= 0)
    return; // announced runs may not have begun
  ofCallers += static_cast<uint32_t>(more);
  countBegun(static_cast<uint64_t>(more));
}

StepRange lastStepsOf(const Plan &plan) {
  const auto isStepAt = [&](uint32_t i) {
    return plan.commands[i].kind == CommandKind::Signal ||
           plan.commands[i].kind == CommandKind::Await;
  };
  StepRange range;
  range.end = static_cast<uint32_t>(plan.commands.size());
  while (range.end > 0 && !isStepAt(range.end - 1))
    --range.end;
  range.begin = range.end;
  while (range.begin > 0 && isStepAt(range.begin - 1) &&
         plan.commands[range.begin - 1].stream == plan.commands[range.end - 1].stream)
    --range.begin;
  return range;
}

} // namespace braid
