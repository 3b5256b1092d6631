//===- backends/cuda/registered_plan.cpp - a Plan's resources on one GPU ----------------------===//

#include "backends/cuda/registered_plan.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

/// Returns the workspace size in bytes that each stream needs for its GEMMs' current algorithms.
std::vector<int64_t> workspacesFor(const Plan &plan, const Gemms &gemms) {
  std::vector<int64_t> workspaces(plan.streams.size(), 0);
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Matmul)
      workspaces[command.stream] =
          std::max(workspaces[command.stream], gemms.workspaceBytes(plan.matmuls[command.matmul]));
  return workspaces;
}

} // namespace

RegisteredPlan::RegisteredPlan(const Plan &itsPlan) : plan(&itsPlan), steps(itsPlan) {
  isUsed.resize(itsPlan.streams.size());
  for (const Command &command : itsPlan.commands)
    isUsed[command.stream] = true;
}

Result<void *> RegisteredPlan::allocate(CudaMemory &memory, int64_t bytes) {
  ofGraphs.memory.push_back(BRAID_TRY(memory.allocate(ArenaKind::Private, bytes)));
  return ofGraphs.memory.back();
}

Status RegisteredPlan::allocateForGraphs(CudaMemory &memory, const Gemms &gemms) {
  constexpr int64_t kAlignment = 256;
  const auto streams = static_cast<int64_t>(plan->streams.size());
  constexpr int64_t kCounters = cuda::CopyAndSignal::kCounters;
  ofGraphs.guard.counts = static_cast<uint32_t *>(
      BRAID_TRY(allocate(memory, kAlignment + streams * kCounters * int64_t(sizeof(uint32_t)))));
  ofGraphs.counters = ofGraphs.guard.counts + kAlignment / sizeof(uint32_t);
  static_assert(sizeof(cuda::RunReport) <= sizeof(StepWord));
  void *report = BRAID_TRY(memory.allocateReports((1 + streams) * int64_t(sizeof(StepWord))));
  ofGraphs.guard.report = static_cast<cuda::RunReport *>(report);
  steps.words = static_cast<StepWord *>(report) + 1;
  ofGraphs.workspaces.resize(plan->streams.size());
  return growWorkspaces(memory, gemms);
}

Status RegisteredPlan::growWorkspaces(CudaMemory &memory, const Gemms &gemms) {
  const std::vector<int64_t> needed = workspacesFor(*plan, gemms);
  for (size_t stream = 0; stream < needed.size(); ++stream)
    if (const auto bytes = static_cast<size_t>(needed[stream]);
        bytes > ofGraphs.workspaces[stream].bytes)
      ofGraphs.workspaces[stream] = {BRAID_TRY(allocate(memory, needed[stream])), bytes};
  return Status::ok();
}

void RegisteredPlan::releaseForGraphs(CudaMemory &memory) const {
  for (void *each : ofGraphs.memory)
    memory.release(each);
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
  // `begun` must be read first, because the host announces runs before it launches them.
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint32_t told = guarded.load(std::memory_order_relaxed);
  const auto callers = static_cast<int32_t>(begun - told);
  const int32_t more = callers - static_cast<int32_t>(ofCallers);
  if (more <= 0)
    return; // some announced runs have not begun
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
