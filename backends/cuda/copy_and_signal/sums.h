//===- backends/cuda/copy_and_signal/sums.h - the sum of a kernel -----------------------------===//
//
// Device code of the copy-and-signal kernels. An adder is what a launch does about a sum: there is
// none, it follows the arrivals, or the workers add what they copy.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal/second_shot.h"

namespace braid::cuda {

/// The share of the work that each worker has.
struct Shares {
  uint32_t copiers; ///< the first ones copy, each a tile at least; all add
  bool isWide;      ///< groups of the sum are of 16 bytes
  SumWalk sum;
};

/// The adder of a launch without a sum.
struct NoSum {
  static constexpr bool kAdds = false, kIsAlong = false;
  static __device__ void begin(const CopyAndSignal &) {}
  static __device__ void add(const CopyAndSignal &, const Shares &) {}
};

/// Elements in 16 bytes of a part.
template <class Types> constexpr int kGroupOf = 16 / sizeof(typename Types::Partial);

/// A thread's whole groups.
template <class Types, int kWide, class Place>
__device__ void addOwn(const Sum &sum, const SumWalk &walk, int64_t thread, Place place) {
  if (sum.count <= 2)
    addGroups<Place, Types, kWide, 2, 4>(sum, walk, thread, 4 * walk.apart, place);
  else if (sum.count <= 4)
    addGroups<Place, Types, kWide, 4, 2>(sum, walk, thread, 2 * walk.apart, place);
  else
    addGroups<Place, Types, kWide, kMostParts, 1>(sum, walk, thread, walk.apart, place);
}

// -- After the arrivals. --

/// The arrivals have passed: the sum may begin.
__device__ inline DeviceCounter sumGate(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost + 1]);
}

/// Workers that have passed the gate of the sum.
__device__ inline DeviceCounter sumPassed(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost + 2]);
}

/// The adder of a launch whose sum follows the arrivals.
template <class Types> struct SumBehind {
  static constexpr bool kAdds = true, kIsAlong = false;

  /// The first block's warp: every lane has seen its arrivals, and with them what peers wrote. The
  /// gate hands that on to the workers.
  static __device__ void begin(const CopyAndSignal &batch) {
    __syncwarp();
    if (threadIdx.x == 0)
      sumGate(batch).store(1, ::cuda::memory_order_release);
  }

  static __device__ void add(const CopyAndSignal &batch, const Shares &shares) {
    const uint32_t worker = blockIdx.x - 1, workers = gridDim.x - 1;
    if (threadIdx.x == 0)
      while (sumGate(batch).load(::cuda::memory_order_acquire) == 0)
        ;
    __syncthreads();
    const int64_t thread = int64_t(worker) * kWorkerThreads + threadIdx.x;
    if (shares.isWide)
      addShare<kGroupOf<Types>>(batch.sum, shares.sum, thread);
    else
      addShare<1>(batch.sum, shares.sum, thread);
    if (threadIdx.x == 0)
      leave(batch, workers);
  }

private:
  template <int kWide>
  static __device__ void addShare(const Sum &sum, const SumWalk &walk, int64_t thread) {
    addOwn<Types, kWide>(sum, walk, thread, BehindArrivals());
    addRest<BehindArrivals, Types, kWide>(sum, walk, thread);
  }

  /// The last worker that has passed the gate closes it: the first block need not wait.
  static __device__ void leave(const CopyAndSignal &batch, uint32_t workers) {
    if (sumPassed(batch).fetch_add(1, ::cuda::memory_order_acq_rel) != workers - 1)
      return;
    sumPassed(batch).store(0, ::cuda::memory_order_relaxed);
    sumGate(batch).store(0, ::cuda::memory_order_relaxed);
  }
};

// -- Adding along copies. --

/// True in the last of the counting blocks. Only stores of kept parts need the counter's order,
/// because the data that the blocks have read had arrived before.
__device__ inline bool isLast(const CopyAndSignal &batch, uint32_t one = 1) {
  DeviceCounter count(batch.counters[0]);
  const uint32_t before = batch.sum.keepsParts ? count.fetch_add(one, ::cuda::memory_order_acq_rel)
                                               : count.fetch_add(one, ::cuda::memory_order_relaxed);
  return before == gridDim.x - 1;
}

/// A warp of each block. Its first thread says whether the block is the last one, behind the reads
/// of all others.
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

/// Parts come from where the copies read them, and are kept where those write, if anybody reads
/// them there. What peers wrote, they wrote while the kernel ran.
struct FromSources {
  static __device__ int64_t apart(const SumWalk &walk) { return walk.apart; }
  /// All threads of a block have as many rounds.
  __device__ bool hasRound(const SumWalk &walk, int64_t begin) const {
    return begin - int64_t(threadIdx.x) < walk.groups;
  }

  /// The address from which the block reads each part.
  static __device__ const char **sources() {
    __shared__ const char *of[CopyAndSignal::kMost + 1];
    return of;
  }
  /// A block, before the parts are read and a barrier of the block.
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

/// A block counts itself when it has read everything, which peers wait for, and stores its results
/// meanwhile.
struct AlongCopies : FromSources {
  /// The progress of a thread's block.
  struct Block {
    bool isLast = false;   ///< all blocks have read; valid in the thread that counts the block
    bool hasRound = false; ///< one has been read
    bool gives = false;    ///< results go to the places of the second shot, too
  };
  const CopyAndSignal &batch;
  Block &block;

  __device__ AlongCopies(const CopyAndSignal &batch, Block &block) : batch(batch), block(block) {}
  /// The barrier counts threads by the value, and the block counts itself by that number, so that
  /// neither can happen before all is read.
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
    if (isWarp(kLastWarp)) // while the first one waits
      leaveReads(batch, block.isLast);
    passSecondAwaits(batch);
    block.gives = isOnlyRound;
  }
  template <class Bits> __device__ void stored(int64_t at, const Bits &bits) {
    if (block.gives)
      give(batch, at, bits);
  }
};

/// The adder of a launch whose workers add what they copy. The last block to finish does the rest.
template <class Types> struct SumAlong {
  static constexpr bool kAdds = true, kIsAlong = true;

  static __device__ void copyAndAdd(const CopyAndSignal &batch, const Shares &shares) {
    FromSources::find(batch);
    passAwaits(batch);
    __syncthreads();
    const int64_t thread = int64_t(blockIdx.x - 1) * kWorkerThreads + threadIdx.x;
    AlongCopies::Block block;
    addOwn<Types, kGroupOf<Types>>(batch.sum, shares.sum, thread, AlongCopies(batch, block));
    if (hasSecondShot(batch)) {
      if (!block.gives)
        giveAll<typename Group<typename Types::Result, kGroupOf<Types>>::Bits>(batch, shares.sum,
                                                                               thread);
      finishSecondShot(batch);
    } else if (threadIdx.x < kWarp) {
      leaveReads(batch, block.isLast);
    }
  }
};

/// The only block of a launch. Its last warp waits and signals, and adds as the others do. It takes
/// the awaits' flags while the parts are being loaded.
struct Alone : FromSources {
  const CopyAndSignal &batch;
  const uint32_t taken; ///< the await's flag of this lane, of the last warp

  __device__ Alone(const CopyAndSignal &batch, uint32_t taken) : batch(batch), taken(taken) {}

  /// The barrier counts threads by the value, so that no signal leaves before all is read.
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
