//===- backends/cuda/registered_plan.h - what a GPU keeps for a Plan --------------------------===//
//
// The resources of runs in graphs (workspaces of GEMMs, counters of kernels) belong to the Plan,
// because a caller may replay a graph beside other programs.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/gemm/gemms.h"
#include "backends/cuda/run_guard.h"
#include "backends/cuda/stream_steps.h"
#include "backends/cuda/waiting_budget.h"

#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <memory>

namespace braid {

/// Graphs that are not destroyed; CUDA's thread that counts them down may outlive the device.
using GraphCount = std::shared_ptr<std::atomic<int64_t>>;

/// Commands of a Plan that follow one another.
struct StepRange {
  uint32_t begin = 0, end = 0; ///< half open; empty: none
  bool contains(uint32_t command) const { return command >= begin && command < end; }
};

/// The resources that runs in graphs use while they run.
struct ForGraphs {
  void *memory = nullptr; ///< all of it but the guard's report
  cuda::RunGuard guard;
  uint32_t *counters = nullptr;      ///< CopyAndSignal::kCounters for each stream
  std::vector<Workspace> workspaces; ///< one for each stream
  std::vector<void *> larger;        ///< memory of those that have grown
};

/// The state of a registered Plan on this device.
struct RegisteredPlan {
  explicit RegisteredPlan(const Plan &itsPlan);

  /// Takes memory for runs in graphs: the counts of the guard, those of kernels that copy and
  /// signal, and the workspaces of GEMMs, for each stream.
  Status allocateForGraphs(CudaMemory &memory, const Gemms &gemms);
  /// A GEMM that was measured since may need more. Graphs that are recorded keep the memory that
  /// they have.
  Status growWorkspaces(CudaMemory &memory, const Gemms &gemms);
  void releaseForGraphs(CudaMemory &memory) const;
  int64_t workspaceBytes() const;

  /// True while a run of a graph of the caller's, or one beside such graphs, is under way.
  bool isRunning() const;
  /// The number of guarded runs that have ended, modulo 2^32.
  uint32_t endedRuns() const;
  bool hasOverlapped() const;
  void countBegun(uint64_t runs) const;
  /// The guard counts all runs that it sees: what the host told it of, and those of the caller's
  /// graphs, which only the GPU sees.
  void countCallersRuns();
  /// Nothing inside of a replay tells at once that it has begun, so a write behind the graph tells
  /// when it is over. For messages it would take 3 us inside.
  bool isReportedBehind() const { return !steps.showsItsBeginning(); }

  const Plan *plan;
  GraphSteps steps;
  /// The number of runs that this rank has started, which peers compare with theirs. Null if no
  /// rank waits for peer memory, or if there is no free slot for the counter.
  std::atomic<uint64_t> *begunRuns = nullptr;
  uint32_t users = 1;                    ///< registrations
  Ctas ctas = {};                        ///< for its messages, as registered last
  std::vector<nvtxStringHandle_t> names; ///< the name of each origin, for profilers
  WaitingKernels waiting;
  LaunchLimits limits;                        ///< for runs that Braid orders
  std::optional<LaunchLimits> limitsInGraphs; ///< for callers' graphs, since the first capture
  bool waitsByMemory = false;                 ///< too many streams for kernels that wait
  StepRange lastSteps;                        ///< by which a run in a caller's graph ends
  std::vector<bool> isUsed;                   ///< each stream
  bool isInCallersGraph = false;              ///< so its runs are guarded from now on
  uint32_t ended = 0;                         ///< guarded runs, as the watchdog saw last
  std::atomic<bool> isLaunched{false};        ///< graphs of our own, since all was known to be over
  std::atomic<uint32_t> guarded{0};           ///< runs of which the host told the guard
  uint32_t ofCallers = 0; ///< runs that graphs of the caller's have begun, likewise
  GraphCount callersGraphs = std::make_shared<std::atomic<int64_t>>(0); ///< with its runs
  ForGraphs ofGraphs;
};

/// The last signal or await of a Plan, and those right in front of it on the same stream.
StepRange lastStepsOf(const Plan &plan);

} // namespace braid
