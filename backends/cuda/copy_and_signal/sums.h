//===- backends/cuda/copy_and_signal/sums.h - sums in a kernel --------------------------------===//
//
// Device code of the copy-and-signal kernels whose workers add the data that they copy.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal/second_shot.h"

namespace braid::cuda {

/// Number of elements in 16 bytes of a part.
template <class Types> constexpr int kGroupOf = 16 / sizeof(typename Types::Partial);

/// Adds a thread's groups with code that is unrolled for the number of parts.
template <class Types, class Place>
__device__ void addOwn(const Sum &sum, const SumWalk &walk, int64_t thread, Place place) {
  constexpr int kWide = kGroupOf<Types>;
  if (sum.count <= 2)
    addGroups<Place, Types, kWide, 2, 4>(sum, walk, thread, 4 * walk.apart, place);
  else if (sum.count <= 4)
    addGroups<Place, Types, kWide, 4, 2>(sum, walk, thread, 2 * walk.apart, place);
  else
    addGroups<Place, Types, kWide, kMostParts, 1>(sum, walk, thread, walk.apart, place);
}

/// Counts this block and returns true if it is the last block. Acquire-release order is needed only
/// if blocks also store the parts, because all data that they read arrived before the awaits
/// completed.
__device__ inline bool isLast(const CopyAndSignal &batch, uint32_t one = 1) {
  DeviceCounter count(batch.counters[0]);
  const uint32_t before = batch.sum.keepsParts ? count.fetch_add(one, ::cuda::memory_order_acq_rel)
                                               : count.fetch_add(one, ::cuda::memory_order_relaxed);
  return before == gridDim.x - 1;
}

/// Called by one warp of each block after the block has read its parts. `isLastBlock`, used only in
/// lane 0, is true if no other block is still reading.
__device__ inline void leaveReads(const CopyAndSignal &batch, bool isLastBlock) {
  if (!__shfl_sync(~0u, isLastBlock, 0))
    return;
  if (laneOfThread() == 0)
    DeviceCounter(batch.counters[0]).store(0, ::cuda::memory_order_relaxed);
  if (takeAll(batch, batch.awaits, batch.awaitCount))
    finishMoves(batch);
  if (hasSecondShot(batch))
    return;
  passArrivals(batch);
  takeArrivals(batch);
}

/// Reads each part from the source of the part's copy. If the sum keeps its parts, also stores each
/// part at the copy's destination. Peers write the parts while the kernel is running.
struct FromSources {
  static __device__ int64_t apart(const SumWalk &walk) { return walk.apart; }
  /// All threads of a block execute the same number of rounds.
  __device__ bool hasRound(const SumWalk &walk, int64_t begin) const {
    return begin - int64_t(threadIdx.x) < walk.groups;
  }

  /// Returns the addresses from which this block reads the parts.
  static __device__ const char **sources() {
    __shared__ const char *of[CopyAndSignal::kMost + 1];
    return of;
  }
  /// Sets sources(). Called by all threads of a block; a barrier must precede any read of a part.
  static __device__ void find(const CopyAndSignal &batch) {
    const auto part = static_cast<int64_t>(threadIdx.x);
    if (part >= batch.sum.count)
      return;
    const char *own = partOf<char>(batch.sum, part), *from = own;
    for (uint32_t i = 0; i < batch.copyCount; ++i)
      if (batch.copies[i].dst == own)
        from = batch.copies[i].src;
    sources()[part] = from;
  }
  template <class Bits> static __device__ const Bits *source(int64_t part, int64_t at) {
    return reinterpret_cast<const Bits *>(sources()[part]) + at;
  }
  template <class Bits> static __device__ Bits read(const Sum &, int64_t part, int64_t at) {
    return __ldcg(source<Bits>(part, at));
  }
  template <class Bits>
  static __device__ void keep(const Sum &sum, int64_t part, int64_t at, const Bits &bits) {
    if (!sum.keepsParts)
      return;
    const Bits *to = partOf<Bits>(sum, part) + at;
    if (to != source<Bits>(part, at))
      *const_cast<Bits *>(to) = bits;
  }
};

/// The Place in launches with several blocks. Counts the block as soon as all its parts have been
/// read, because peers wait for these reads, then stores the block's results.
struct AlongCopies : FromSources {
  /// State that a thread carries from round to round.
  struct Block {
    bool isLast = false;   ///< true if all blocks have read; valid in the counting thread
    bool hasRound = false; ///< true if the thread has completed the reads of a round
    bool gives = false;    ///< true if results are also stored to the second shot's places
  };
  const CopyAndSignal &batch;
  Block &block;

  __device__ AlongCopies(const CopyAndSignal &batch, Block &block) : batch(batch), block(block) {}
  /// The barrier depends on `dependsOnAll`, and counting the block depends on the barrier's result,
  /// so both happen after all reads.
  __device__ void loaded(bool isLastRound, bool dependsOnAll) {
    const bool isOnlyRound = isLastRound && !block.hasRound;
    block.hasRound = true;
    if (!isLastRound)
      return;
    const int threads = __syncthreads_count(dependsOnAll);
    const bool tells = isWarp(hasSecondShot(batch) ? kLastWarp : 0) && laneOfThread() == 0;
    block.isLast = tells && isLast(batch, threads <= kWorkerThreads ? 1 : 2);
    if (!hasSecondShot(batch))
      return;
    if (isWarp(kLastWarp)) // the first warp is waiting
      leaveReads(batch, block.isLast);
    passSecondAwaits(batch);
    block.gives = isOnlyRound;
  }
  template <class Bits> __device__ void stored(int64_t at, const Bits &bits) {
    if (block.gives)
      give(batch, at, bits);
  }
};

/// Executed by each worker. The last block to finish reading also executes the remaining steps.
template <class Types> __device__ void copyAndAdd(const CopyAndSignal &batch, const SumWalk &walk) {
  FromSources::find(batch);
  passAwaits(batch);
  __syncthreads();
  const int64_t thread = int64_t(blockIdx.x - 1) * kWorkerThreads + threadIdx.x;
  AlongCopies::Block block;
  addOwn<Types>(batch.sum, walk, thread, AlongCopies(batch, block));
  if (hasSecondShot(batch)) {
    if (!block.gives)
      giveAll<typename Group<typename Types::Result, kGroupOf<Types>>::Bits>(batch, walk, thread);
    finishSecondShot(batch);
  } else if (threadIdx.x < kWarp) {
    leaveReads(batch, block.isLast);
  }
}

/// The Place in launches with a single block. The block's last warp waits and signals in addition
/// to adding, and resets the awaits' flags while the parts are being loaded.
struct Alone : FromSources {
  const CopyAndSignal &batch;
  const uint32_t taken; ///< previous value of this lane's flag, in the last warp

  __device__ Alone(const CopyAndSignal &batch, uint32_t taken) : batch(batch), taken(taken) {}

  /// The barrier depends on `dependsOnAll`, so no signal is sent before all parts have been read.
  __device__ void loaded(bool isLastRound, bool dependsOnAll) {
    if (!isLastRound)
      return;
    __syncthreads_count(dependsOnAll);
    if (isWarp(kLastWarp) && areTaken(taken))
      finishMoves(batch);
  }
  template <class Bits> __device__ void stored(int64_t, const Bits &) {}
};

} // namespace braid::cuda
