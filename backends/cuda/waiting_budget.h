//===- backends/cuda/waiting_budget.h - multiprocessors on which kernels may wait -------------===//
//
// A kernel that waits for a peer keeps GEMMs off its multiprocessors, and the peer may be waiting
// for one of these GEMMs. So kernels that wait concurrently must leave room, and all jobs of a
// process share one budget per GPU.
//
// Programs in one lane never run concurrently, so a lane holds what its largest program needs. A
// job has two lanes: the runs that Braid orders, and those in the caller's graphs, which the caller
// orders. The first program to be prepared gets what it needs, up to half of the GPU; later
// programs get what is left. A program that gets less uses fewer blocks per launch. If less than
// one block per stream is left, waiting and copying become separate kernels, so that only one warp
// per stream waits; this is granted even if nothing is left. Ranks need not use the same number of
// blocks: a flag is set when all blocks of a launch are done.
//
// Uses no part of CUDA except a header that needs no device.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include <mutex>
#include <vector>

namespace braid {

/// The kernels of a program that may wait for peers concurrently: one per stream.
struct WaitingKernels {
  int working = 0;     ///< kernels that also copy or add
  int onlyWaiting = 0; ///< kernels of a single warp, which only wait
  /// maximum number of blocks of a working kernel, besides the coordinating one
  int workers = 0;

  int wanted() const { return working * (1 + workers) + onlyWaiting; }
  int least() const { return working + onlyWaiting; }
};
WaitingKernels waitingKernels(const Plan &plan, TransferMode mode);

/// Bounds on the launches of a program.
struct LaunchLimits {
  cuda::CopyAndSignalBlocks blocks;
  bool waitsApart = false; ///< true if kernels that copy or add must not wait for peers
};
/// Divides multiprocessors among the streams.
LaunchLimits limitsFor(const WaitingKernels &kernels, int multiprocessors);

/// Thread-safe.
class WaitingBudget {
public:
  /// Returns the budget that all jobs of this process share for this GPU.
  static WaitingBudget &ofDevice(int device, int multiprocessors);
  explicit WaitingBudget(int multiprocessors);

  enum class Lane { Ordered, CallersGraphs };
  /// Reserves multiprocessors for the waiting kernels of `program`, a unique key. Returns their
  /// number: at most `kernels.wanted()`, and never less than `kernels.least()`. If the program
  /// already has a reservation in that lane, it keeps the larger one.
  int reserve(const void *job, Lane lane, const void *program, const WaitingKernels &kernels);
  /// Releases the program's reservations in both lanes. None of its kernels may still run.
  void release(const void *program);

private:
  struct Reservation {
    const void *job;
    Lane lane;
    const void *program;
    int multiprocessors;
  };
  int leftFor(const Reservation &wanted) const;

  const int most_;  ///< maximum for one program
  const int total_; ///< total over all lanes
  std::mutex mutex_;
  std::vector<Reservation> reservations_; ///< guarded by mutex_
};

} // namespace braid
