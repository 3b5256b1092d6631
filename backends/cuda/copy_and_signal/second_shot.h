//===- backends/cuda/copy_and_signal/second_shot.h - sends a sum to peers ---------------------===//
//
// Device code of the copy-and-signal kernels: the second shot, that is, the steps after the sum.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/add_groups.h"
#include "backends/cuda/copy_and_signal/copies.h"

namespace braid::cuda {

/// The last warp of a worker has the fewest tiles to copy, so it also does the work that other
/// warps need not wait for.
constexpr uint32_t kLastWarp = kWorkerThreads / kWarp - 1;
__device__ inline bool isWarp(uint32_t number) { return threadIdx.x / kWarp == number; }

__device__ inline bool hasSecondShot(const CopyAndSignal &batch) {
  return batch.second.placeCount != 0;
}

/// Indices of tile counters that a second shot reuses. A launch with a sum does not count tiles.
enum SecondShotCounter : uint32_t { kPassed = 1, kArrived = 2 };

/// Each worker adds this value to every flag of the second shot. The first block adds the value
/// that makes the total 1, so a flag becomes 1 once all blocks are done, regardless of their order.
constexpr uint32_t kShareOfWorker = 1u << 16;

/// Adds a worker's share to the flags after the worker's stores, without waiting for other blocks.
/// The addition has release semantics, so no separate fence is needed.
__device__ inline void signalShare(const CopyAndSignal &batch) {
  if (threadIdx.x < batch.second.signalCount)
    SystemFlag(*batch.second.signals[threadIdx.x].flag)
        .fetch_add(kShareOfWorker, ::cuda::memory_order_release);
}

/// Adds the first block's share to the flags. Call only after every worker has passed the awaits
/// and this block has reset the awaits' flags.
__device__ inline void signalRest(const CopyAndSignal &batch, uint32_t workers) {
  const CopyAndSignal::SecondShot &second = batch.second;
  if (threadIdx.x < second.signalCount)
    SystemFlag(*second.signals[threadIdx.x].flag)
        .fetch_add(1 - workers * kShareOfWorker, ::cuda::memory_order_relaxed);
  if (threadIdx.x == 0 && second.signalCount != 0)
    report(batch, second.signals[second.signalCount - 1].value);
}

/// Called by one warp of each block after the block has stopped polling the arrivals' flags. The
/// last block to call this function resets the flags.
__device__ inline void leaveArrivals(const CopyAndSignal &batch) {
  DeviceCounter arrived(batch.counters[kArrived]);
  const bool isLast =
      laneOfThread() == 0 && arrived.fetch_add(1, ::cuda::memory_order_relaxed) == gridDim.x - 1;
  if (!__shfl_sync(~0u, isLast, 0))
    return;
  if (laneOfThread() == 0)
    arrived.store(0, ::cuda::memory_order_relaxed);
  takeArrivals(batch);
}

/// Executed by the first block's warp. Waits and reports progress in step order.
__device__ inline void coordinateSecondShot(const CopyAndSignal &batch) {
  const CopyAndSignal::SecondShot &second = batch.second;
  const uint32_t workers = gridDim.x - 1;
  // Reports no progress, because the last block to finish reading may not have reported yet.
  waitForAll(batch, second.awaits, second.awaitCount, /*tells=*/false);
  DeviceCounter passed(batch.counters[kPassed]);
  if (threadIdx.x == 0) {
    while (passed.load(::cuda::memory_order_relaxed) != workers)
      ;
    passed.store(0, ::cuda::memory_order_relaxed);
  }
  __syncwarp();
  if (!takeAll(batch, second.awaits, second.awaitCount))
    return;
  signalRest(batch, workers);
  passArrivals(batch);
  leaveArrivals(batch);
}

/// Waits until the peers allow the stores of the sum. Called by a worker after it has reported that
/// it has read its parts. By then, this rank has sent all signals that a peer may be waiting for.
__device__ inline void passSecondAwaits(const CopyAndSignal &batch) {
  passNear(batch, batch.second.awaits, batch.second.awaitCount);
  __syncthreads();
  if (threadIdx.x == 0)
    DeviceCounter(batch.counters[kPassed]).fetch_add(1, ::cuda::memory_order_relaxed);
}

/// Stores a group of the sum to all places of the second shot.
template <class Bits>
__device__ void give(const CopyAndSignal &batch, int64_t at, const Bits &bits) {
  for (uint32_t i = 0; i < batch.second.placeCount; ++i)
    reinterpret_cast<Bits *>(batch.second.places[i])[at] = bits;
}

/// Stores all groups of a thread that has computed its sums in several rounds. Call only after the
/// thread's block has reported that it has read all its parts.
template <class Bits>
__device__ void giveAll(const CopyAndSignal &batch, const SumWalk &walk, int64_t thread) {
  for (int64_t at = thread; at < walk.groups; at += walk.apart)
    give(batch, at, static_cast<const Bits *>(batch.sum.dst)[at]);
}

/// Called by a worker after it has issued its stores.
__device__ inline void finishSecondShot(const CopyAndSignal &batch) {
  __syncthreads();
  signalShare(batch);
  passNear(batch, batch.arrivals, batch.arrivalCount);
  __syncthreads();
  if (isWarp(kLastWarp))
    leaveArrivals(batch);
  copyByThreads(
      TileWalk(batch.second.copies, batch.second.copyCount, blockIdx.x - 1, gridDim.x - 1));
}

} // namespace braid::cuda
