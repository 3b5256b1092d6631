//===- backends/cuda/copy_and_signal/flags.h - signals and awaits of a kernel -----------------===//
//
// Device code of the copy-and-signal kernels (copy_and_signal.cu).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "backends/cuda/granules.h"
#include "backends/cuda/tell_runs.h"

#include <cuda/atomic>

namespace braid::cuda {

using SystemFlag = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>;
using DeviceCounter = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;

__device__ inline uint32_t laneOfThread() { return threadIdx.x % kWarp; }

__device__ inline uint32_t look(uint32_t *flag) {
  return SystemFlag(*flag).load(::cuda::memory_order_acquire);
}

/// Set, or released by the host; not what some of the blocks that signal have added (signalShare).
__device__ inline bool isSet(uint32_t *flag) {
  const uint32_t value = look(flag);
  return value == 1 || value == kReleasedFlag;
}

/// Takes a flag away, and returns what it was. A flag that is not 1, as a released one, stays, so
/// that every later await passes, too. In the GPU's memory it is gone when this has returned,
/// without a fence; the host's memory has no such exchange.
__device__ inline uint32_t take(const CopyAndSignal &batch, uint32_t *flag) {
  SystemFlag counter(*flag);
  uint32_t was = 1;
  if (batch.released) {
    counter.compare_exchange_strong(was, 0, ::cuda::memory_order_relaxed);
    return was;
  }
  was = counter.load(::cuda::memory_order_relaxed);
  if (was == 1)
    counter.store(0, ::cuda::memory_order_relaxed);
  return was;
}

__device__ inline void set(uint32_t *flag) {
  SystemFlag(*flag).store(1, ::cuda::memory_order_relaxed);
}

__device__ inline void report(const CopyAndSignal &batch, uint32_t value) {
  SystemFlag(*batch.step).store(value, ::cuda::memory_order_relaxed);
}

/// A peer that sees a later write of this thread also sees everything that this thread sees now.
__device__ inline void publishToPeers() {
  ::cuda::atomic_thread_fence(::cuda::memory_order_acq_rel, ::cuda::thread_scope_system);
}

// -- Counting runs. --

/// Counts a run of a caller's graph, in the last lane of the warp that awaits: it has no flag to
/// look at. The answer of a counter takes as long as a look at a flag, so the lane asks at once and
/// goes on when the first look is over: counting makes no kernel longer that waits for peers.
class RunCount {
public:
  __device__ RunCount(const CopyAndSignal &batch, bool isOfWarp)
      : begins_(batch.beginsRun && isOfWarp && isCounter()),
        ends_(batch.endsRun && isOfWarp && isCounter()) {
    if (begins_)
      before_ = DeviceCounter(batch.guard.counts[0]).fetch_add(1, ::cuda::memory_order_relaxed);
    if (begins_ || ends_)
      ended_ = DeviceCounter(batch.guard.counts[1]).load(::cuda::memory_order_relaxed);
  }
  __device__ void tellBegin(const CopyAndSignal &batch) {
    if (begins_)
      braid::cuda::tellBegin(batch.guard, before_, ended_);
    begins_ = false;
  }
  /// Runs follow one another, so no other one has ended since this was made.
  __device__ void tellEnd(const CopyAndSignal &batch) const {
    if (!ends_)
      return;
    DeviceCounter(batch.guard.counts[1]).fetch_add(1, ::cuda::memory_order_relaxed);
    tell(batch.guard.report->ended, ended_ + 1);
  }

private:
  static __device__ bool isCounter() { return laneOfThread() == kWarp - 1; }
  bool begins_;
  const bool ends_;
  uint32_t before_ = 0, ended_ = 0; ///< runs that had begun, and ended, when this one began
};

// -- Waiting. --

/// True when the host has ended all waits. Far away: to be asked seldom.
__device__ inline bool isReleased(const CopyAndSignal &batch) {
  return batch.released && look(batch.released) != 0;
}

/// Looks at each flag with a lane of its own until all are set. Where flags lie in the host's
/// memory, a look takes more than a microsecond, and many at the same time hold one another up; so
/// does the look for a release, which small problems should be over before.
__device__ inline void waitForAll(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                                  uint32_t count, bool tells = true, RunCount *run = nullptr) {
  constexpr uint32_t kFirstLooks = 64, kLooksBetween = 256;
  const uint32_t lane = laneOfThread();
  bool passes = lane >= count;
  uint32_t reported = 0;
  for (uint32_t looks = 1; reported < count; ++looks) {
    passes = passes || isSet(flags[lane].flag) ||
             ((looks == kFirstLooks || looks % kLooksBetween == 0) && isReleased(batch));
    const uint32_t unset = ~__ballot_sync(~0u, passes);
    if (run)
      run->tellBegin(batch);
    const uint32_t passed = unset == 0 ? count : min(count, __ffs(unset) - 1);
    // As if they were awaited one after the other.
    if (lane == 0 && passed != reported && tells)
      report(batch, flags[passed - 1].value);
    reported = passed;
  }
}

// The counters behind those of the copies.

/// A worker's first warp: until `isPassed` holds for all lanes.
template <class IsPassed>
__device__ void passWhen(const CopyAndSignal &batch, bool passes, IsPassed isPassed) {
  constexpr uint32_t kLooksBetween = 256; // for a release, which is far away
  for (uint32_t looks = 1; !__all_sync(~0u, passes); ++looks)
    passes = passes || isPassed() || (looks % kLooksBetween == 0 && isReleased(batch));
}

/// A worker's first warp: until flags on the GPU are set. They stay set.
__device__ inline void passNear(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                                uint32_t count) {
  const uint32_t lane = threadIdx.x;
  if (lane < kWarp)
    passWhen(batch, lane >= count, [&] { return isSet(flags[lane].flag); });
}

/// Takes the flag of this lane, and returns what it was, or 0 where there is none.
__device__ inline uint32_t takeOwn(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                                   uint32_t count) {
  const uint32_t lane = laneOfThread();
  return lane < count ? take(batch, flags[lane].flag) : 0;
}

/// Waits until the flags of all lanes are gone. Never false, which the compiler does not know: to
/// say so, every lane has to have its exchange back.
__device__ inline bool areTaken(uint32_t was) {
  constexpr uint32_t kNever = ~0u;
  const bool isDone = !__any_sync(~0u, was == kNever);
  __syncwarp();
  return isDone;
}

/// Workers look at flags, too, so they are taken when all have passed: a peer sets them again once
/// it has the signals behind what they guard, so these leave when all flags are known to be taken.
__device__ inline bool takeAll(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                               uint32_t count) {
  return areTaken(takeOwn(batch, flags, count));
}

__device__ inline void passArrivals(const CopyAndSignal &batch) {
  waitForAll(batch, batch.arrivals, batch.arrivalCount);
}

__device__ inline void takeArrivals(const CopyAndSignal &batch) {
  if (const uint32_t lane = laneOfThread(); lane < batch.arrivalCount)
    take(batch, batch.arrivals[lane].flag);
}

/// A warp tells peers that they may write, or read.
__device__ inline void giveReadySignals(const CopyAndSignal &batch) {
  const uint32_t lane = laneOfThread();
  if (lane < batch.readySignalCount) {
    if (batch.fencesReadySignals)
      publishToPeers();
    set(batch.readySignals[lane].flag);
  }
  __syncwarp();
  if (lane == 0 && batch.readySignalCount != 0)
    report(batch, batch.readySignals[batch.readySignalCount - 1].value);
}

} // namespace braid::cuda
