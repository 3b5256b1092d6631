//===- backends/cuda/registered_plan.h - a Plan's resources on one GPU ------------------------===//
//
// Resources for runs in graphs (GEMM workspaces, kernel counters) belong to the Plan, because a
// caller may replay a graph concurrently with other programs.
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

/// Number of graphs not yet destroyed. Ownership is shared, because the CUDA thread that decrements
/// the number may outlive the device.
using GraphCount = std::shared_ptr<std::atomic<int64_t>>;

/// Consecutive commands of a Plan.
struct StepRange {
  uint32_t begin = 0, end = 0; ///< half-open range of command indices
  bool contains(uint32_t command) const { return command >= begin && command < end; }
};

/// The resources for runs in graphs.
struct ForGraphs {
  std::vector<void *> memory; ///< all allocations except the guard's report
  cuda::RunGuard guard;
  uint32_t *counters = nullptr;      ///< CopyAndSignal::kCounters entries per stream
  std::vector<Workspace> workspaces; ///< one per stream; zero bytes if the stream needs none
};

/// The state of a registered Plan on this device.
struct RegisteredPlan {
  explicit RegisteredPlan(const Plan &itsPlan);

  /// Allocates memory for runs in graphs: the guard's counts, the counters for copy-and-signal
  /// kernels, and a GEMM workspace per stream.
  Status allocateForGraphs(CudaMemory &memory, const Gemms &gemms);
  /// Enlarges the workspaces if tuning has increased a GEMM's workspace size. Recorded graphs keep
  /// using the old memory.
  Status growWorkspaces(CudaMemory &memory, const Gemms &gemms);
  void releaseForGraphs(CudaMemory &memory) const;
  int64_t workspaceBytes() const;

  /// Returns true while a guarded run is in flight: a run that the GPU counts (run_guard.h).
  bool isRunning() const;
  /// Returns the number of guarded runs that have ended, modulo 2^32.
  uint32_t endedRuns() const;
  bool hasOverlapped() const;
  void countBegun(uint64_t runs) const;
  /// Adds runs in callers' graphs to begunRuns: all runs that the guard has counted but the host
  /// has not announced.
  void countCallersRuns();
  /// Returns true if the completion of a replay is reported by a write after the graph, because no
  /// step inside the graph shows that the replay has begun. A write inside the graph after a
  /// message would take 3 us.
  bool isReportedBehind() const { return !steps.showsItsBeginning(); }

  Result<void *> allocate(CudaMemory &memory, int64_t bytes);

  const Plan *plan;
  GraphSteps steps;
  /// Number of runs that this rank has begun, which peers compare with their own counts. Null if
  /// ranks do not access each other's memory, or if no counter slot was free.
  std::atomic<uint64_t> *begunRuns = nullptr;
  uint32_t users = 1;                    ///< number of registrations
  std::vector<nvtxStringHandle_t> names; ///< name of each origin, for profilers
  WaitingKernels waiting;
  LaunchLimits limits;                        ///< for runs that Braid issues
  std::optional<LaunchLimits> limitsInGraphs; ///< for callers' graphs; set by the first capture
  /// true if streams use memory operations to wait, because too many would need waiting kernels
  bool waitsByMemory = false;
  StepRange lastSteps;      ///< steps that end a run in a caller's graph
  std::vector<bool> isUsed; ///< true for streams with commands
  /// true once a caller's graph contains a run; later runs are guarded
  bool isInCallersGraph = false;
  /// number of guarded runs that had ended at the watchdog's last check
  uint32_t ended = 0;
  /// true if one of Braid's graphs has been launched since the streams were last known to be idle
  std::atomic<bool> isLaunched{false};
  /// number of runs that the host has announced to the guard
  std::atomic<uint32_t> guarded{0};
  uint32_t ofCallers = 0; ///< number of runs that callers' graphs have begun, modulo 2^32
  /// number of callers' graphs that contain runs of the Plan
  GraphCount callersGraphs = std::make_shared<std::atomic<int64_t>>(0);
  ForGraphs ofGraphs;
};

/// Returns the last signal or await of `plan`, and those that directly precede it on its stream.
StepRange lastStepsOf(const Plan &plan);

} // namespace braid
