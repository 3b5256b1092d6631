//===- backends/cuda/copy_and_signal/flags.h - signals and awaits in a kernel -----------------===//
//
// Device code of the copy-and-signal kernels (copy_and_signal.cu).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "backends/cuda/tell_runs.h"

#include <cuda/atomic>

namespace braid::cuda {

using SystemFlag = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>;
using DeviceCounter = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;

constexpr uint32_t kWarp = 32; ///< threads per warp
__device__ inline uint32_t laneOfThread() { return threadIdx.x % kWarp; }

__device__ inline uint32_t look(uint32_t *flag) {
  return SystemFlag(*flag).load(::cuda::memory_order_acquire);
}

/// Returns true if a signal has set the flag or the host has released it. A flag is not set until
/// all signaling blocks have added their shares (signalShare()).
__device__ inline bool isSet(uint32_t *flag) {
  const uint32_t value = look(flag);
  return value == 1 || value == kReleasedFlag;
}

/// Resets a flag and returns its previous value. If the value is not 1, as in a released flag, the
/// flag stays unchanged, so that later awaits also complete. In GPU memory, an atomic exchange
/// completes the reset before returning, without a fence; host memory does not support atomics.
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

/// Makes all writes that this thread has made or observed visible to peers before its later writes.
__device__ inline void publishToPeers() {
  ::cuda::atomic_thread_fence(::cuda::memory_order_acq_rel, ::cuda::thread_scope_system);
}

// -- Counting runs. --

/// Counts a run in a caller's graph, in the last lane of the waiting warp, because this lane polls
/// no flag. Reading a counter takes as long as polling a flag, so the lane issues the read up front
/// and uses the result after the first poll. Counting thus never delays a waiting kernel.
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
  /// Reports the end. Runs never overlap, so none has ended since the constructor read the counter.
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
  uint32_t before_ = 0, ended_ = 0; ///< numbers of runs that began and ended before this run
};

// -- Waiting. --

/// Returns true once the host has ended all waits. Call rarely, because it reads host memory.
__device__ inline bool isReleased(const CopyAndSignal &batch) {
  return batch.released && look(batch.released) != 0;
}

/// Waits until all flags are set; each lane polls one flag. A poll of host memory takes more than a
/// microsecond, and concurrent polls delay one another. The first poll of the release word is
/// therefore delayed, so that short waits do not incur its cost.
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
    // Reports progress as if the flags were awaited one after another.
    if (lane == 0 && passed != reported && tells)
      report(batch, flags[passed - 1].value);
    reported = passed;
  }
}

/// Waits in a worker's first warp until `passes` or isPassed() is true in every lane.
template <class IsPassed>
__device__ void passWhen(const CopyAndSignal &batch, bool passes, IsPassed isPassed) {
  constexpr uint32_t kLooksBetween = 256; // between polls of the release word in host memory
  for (uint32_t looks = 1; !__all_sync(~0u, passes); ++looks)
    passes = passes || isPassed() || (looks % kLooksBetween == 0 && isReleased(batch));
}

/// Waits in a worker's first warp until flags in GPU memory are set, without resetting them.
__device__ inline void passNear(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                                uint32_t count) {
  const uint32_t lane = threadIdx.x;
  if (lane < kWarp)
    passWhen(batch, lane >= count, [&] { return isSet(flags[lane].flag); });
}

/// Resets this lane's flag and returns its previous value, or returns 0 if the lane has no flag.
__device__ inline uint32_t takeOwn(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                                   uint32_t count) {
  const uint32_t lane = laneOfThread();
  return lane < count ? take(batch, flags[lane].flag) : 0;
}

/// Waits until the flags of all lanes have been reset. The result, always true, depends on all
/// atomic exchanges, so the compiler cannot move code that uses the result ahead of the exchanges.
__device__ inline bool areTaken(uint32_t was) {
  constexpr uint32_t kNever = ~0u;
  const bool isDone = !__any_sync(~0u, was == kNever);
  __syncwarp();
  return isDone;
}

/// Resets the flags. Call this function only after all workers, which poll the same flags, have
/// passed the awaits. A peer may set a flag again as soon as it receives the next signals, so send
/// those signals only after this function has returned.
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

/// Sends the ready signals, which allow peers to access this rank's memory. Called by one warp.
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
