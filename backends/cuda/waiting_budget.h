//===- backends/cuda/waiting_budget.h - multiprocessors on which kernels may wait -------------===//
//
// A kernel that waits for a peer keeps GEMMs off its multiprocessors, and the peer may be waiting
// for one of those GEMMs. Kernels that wait concurrently must therefore leave room for GEMMs, and
// all jobs in a process share one budget per GPU.
//
// Programs in one lane never run concurrently, so the lane reserves only what its largest program
// needs. A job has two lanes: one for runs that Braid orders, and one for runs in callers' graphs,
// which the callers order. The first prepared program gets all multiprocessors that it needs, up to
// half of the GPU; later programs share the rest. A program that gets fewer multiprocessors uses
// fewer blocks. If less than one block per stream remains, waiting and copying become separate
// kernels, so that only one warp per stream waits; this minimum is always granted. Ranks may use
// different numbers of blocks, because a flag is set only when all blocks of a launch are done.
//
// The budget calls no CUDA functions, so it also works without a device.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include <mutex>
#include <vector>

namespace braid {

/// The kernels of a program that may wait for peers concurrently: at most one per stream.
struct WaitingKernels {
  int working = 0;     ///< kernels that also copy or add
  int onlyWaiting = 0; ///< single-warp kernels that only wait
  /// maximum number of blocks in a working kernel, excluding the coordinating block
  int workers = 0;

  int wanted() const { return working * (1 + workers) + onlyWaiting; }
  int least() const { return working + onlyWaiting; }
};
WaitingKernels waitingKernels(const Plan &plan, TransferMode mode);

/// Limits on the launches of a program.
struct LaunchLimits {
  cuda::CopyAndSignalBlocks blocks;
  bool waitsApart = false; ///< true if kernels that copy or add must not wait for peers
};
/// Returns limits that divide `multiprocessors` among the streams.
LaunchLimits limitsFor(const WaitingKernels &kernels, int multiprocessors);

/// A GPU's budget of multiprocessors on which kernels may wait. Thread-safe.
class WaitingBudget {
public:
  /// Returns the budget that all jobs in this process share for this GPU.
  static WaitingBudget &ofDevice(int device, int multiprocessors);
  explicit WaitingBudget(int multiprocessors);

  enum class Lane { Ordered, CallersGraphs };
  /// Reserves multiprocessors for the waiting kernels of `program`, a unique key. Returns the
  /// number reserved: at most `kernels.wanted()`, unless a larger reservation exists, and at least
  /// `kernels.least()`. A program that already has a reservation in the lane keeps the larger one.
  int reserve(const void *job, Lane lane, const void *program, const WaitingKernels &kernels);
  /// Releases the program's reservations in both lanes. None of its kernels may be in flight.
  void release(const void *program);

private:
  struct Reservation {
    const void *job;
    Lane lane;
    const void *program;
    int multiprocessors;
  };
  int leftFor(const Reservation &wanted) const;

  const int most_;  ///< maximum reservation of one program
  const int total_; ///< total over all lanes
  std::mutex mutex_;
  std::vector<Reservation> reservations_; ///< guarded by mutex_
};

} // namespace braid
