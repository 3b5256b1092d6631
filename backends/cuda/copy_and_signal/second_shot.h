//===- backends/cuda/copy_and_signal/second_shot.h - a sum that goes to peers -----------------===//
//
// Device code of the copy-and-signal kernels: what follows a sum that is added along the copies.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/add_groups.h"
#include "backends/cuda/copy_and_signal/copies.h"

namespace braid::cuda {

/// A worker's warp that has the fewest tiles to copy, and does what need not hold up the others.
constexpr uint32_t kLastWarp = kWorkerThreads / kWarp - 1;
__device__ inline bool isWarp(uint32_t number) { return threadIdx.x / kWarp == number; }

__device__ inline bool hasSecondShot(const CopyAndSignal &batch) {
  return batch.second.placeCount != 0;
}

/// Counters of copies serve: nothing else counts tiles here.
enum SecondShotCounter : uint32_t { kPassed = 1, kArrived = 2 };

/// A worker adds this to each flag of the second shot's signals. The first block adds the rest that
/// makes the sum 1, so a flag is 1 when all blocks are done, in any order, and not before.
constexpr uint32_t kShareOfWorker = 1u << 16;

/// A worker's part of the signals, behind what its block has stored: it waits for no other block,
/// and its fence is the only one.
__device__ inline void signalShare(const CopyAndSignal &batch) {
  if (threadIdx.x < batch.second.signalCount)
    SystemFlag(*batch.second.signals[threadIdx.x].flag)
        .fetch_add(kShareOfWorker, ::cuda::memory_order_release);
}

/// The first block's contribution to the signals. Called only after every worker has passed the
/// flags and this block has cleared them.
__device__ inline void signalRest(const CopyAndSignal &batch, uint32_t workers) {
  const CopyAndSignal::SecondShot &second = batch.second;
  if (threadIdx.x < second.signalCount)
    SystemFlag(*second.signals[threadIdx.x].flag)
        .fetch_add(1 - workers * kShareOfWorker, ::cuda::memory_order_relaxed);
  if (threadIdx.x == 0 && second.signalCount != 0)
    report(batch, second.signals[second.signalCount - 1].value);
}

/// A warp of each block, when that has looked at the flags of arrivals for the last time.
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

/// The first block's warp, which waits in the order of the steps, and says so.
__device__ inline void coordinateSecondShot(const CopyAndSignal &batch) {
  const CopyAndSignal::SecondShot &second = batch.second;
  const uint32_t workers = gridDim.x - 1;
  // Reports no progress while it waits: the last block to finish reading may not have reported yet.
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

/// A worker that has told that it has read what it added: nothing else that a peer may wait for
/// before it lets this rank store is left to be said.
__device__ inline void passSecondAwaits(const CopyAndSignal &batch) {
  passNear(batch, batch.second.awaits, batch.second.awaitCount);
  __syncthreads();
  if (threadIdx.x == 0)
    DeviceCounter(batch.counters[kPassed]).fetch_add(1, ::cuda::memory_order_relaxed);
}

/// A group of a sum goes to all places.
template <class Bits>
__device__ void give(const CopyAndSignal &batch, int64_t at, const Bits &bits) {
  for (uint32_t i = 0; i < batch.second.placeCount; ++i)
    reinterpret_cast<Bits *>(batch.second.places[i])[at] = bits;
}

/// A thread, which has added in several rounds, gives all that it has added. It could not give any
/// before its block had told that it has read everything.
template <class Bits>
__device__ void giveAll(const CopyAndSignal &batch, const SumWalk &walk, int64_t thread) {
  for (int64_t at = thread; at < walk.groups; at += walk.apart)
    give(batch, at, static_cast<const Bits *>(batch.sum.dst)[at]);
}

/// A worker, whose stores are under way.
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
