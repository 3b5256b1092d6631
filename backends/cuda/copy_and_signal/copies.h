//===- backends/cuda/copy_and_signal/copies.h - copies in a kernel ----------------------------===//
//
// Device code of the copy-and-signal kernels. Copies are executed by threads, by the bulk copy
// unit, or by the first block's warp.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/copy_and_signal/flags.h"

namespace braid::cuda {

constexpr uint32_t kTeam = 128;                 ///< threads per tile
constexpr int kStages = 4;                      ///< tiles in flight per block, 64 KiB in total
constexpr int kWorkerThreads = kTeam * kStages; ///< threads per copying or adding block
static_assert(kWorkerThreads == kThreadsOfAdder);

// -- Copying by threads. --

__device__ inline TileWalk tilesFor(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  return TileWalk(batch.copies, batch.copyCount, copier, copiers);
}

/// Publishes the data that this block has copied: adds the number of tiles that it has copied for
/// each copy to the copy's counter.
__device__ inline void countTiles(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  uint32_t done[CopyAndSignal::kMost] = {};
  TileWalk walk = tilesFor(batch, copier, copiers);
  for (Tile tile; walk.next(tile);)
    ++done[tile.copy];
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    if (done[i] != 0)
      DeviceCounter(batch.counters[i]).fetch_add(done[i], ::cuda::memory_order_release);
}

/// Copies one thread's share of a tile; `thread` is the thread's index in its team. Each round
/// issues all loads before the first store. A tile of 16-byte words takes one round.
template <class Word> __device__ void copyWords(const Tile &tile, uint32_t thread) {
  constexpr uint32_t kEach = kTileBytes / int64_t(sizeof(uint4)) / kTeam; // words per round
  const uint32_t words = tile.bytes / sizeof(Word);
  for (uint32_t first = thread; first < words; first += kEach * kTeam) {
    Word read[kEach];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i)
      if (const uint32_t at = first + i * kTeam; at < words)
        read[i] = reinterpret_cast<const Word *>(tile.src)[at];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i)
      if (const uint32_t at = first + i * kTeam; at < words)
        reinterpret_cast<Word *>(tile.dst)[at] = read[i];
  }
}

/// Copies a tile, using the widest words to which source, destination and size are aligned.
__device__ inline void copyTile(const Tile &tile, uint32_t thread) {
  const auto bits = reinterpret_cast<uintptr_t>(tile.dst) | reinterpret_cast<uintptr_t>(tile.src) |
                    uintptr_t(tile.bytes);
  if (bits % sizeof(uint4) == 0)
    copyWords<uint4>(tile, thread);
  else if (bits % sizeof(uint32_t) == 0)
    copyWords<uint32_t>(tile, thread);
  else if (bits % sizeof(uint16_t) == 0)
    copyWords<uint16_t>(tile, thread);
  else
    copyWords<uint8_t>(tile, thread);
}

/// Copies a block's tiles. The block's teams take turns, which keeps as much data in flight as bulk
/// copies would.
__device__ inline void copyByThreads(TileWalk walk) {
  uint32_t turn = threadIdx.x / kTeam;
  for (Tile tile; walk.next(tile); turn = (turn + kStages - 1) % kStages)
    if (turn == 0)
      copyTile(tile, threadIdx.x % kTeam);
  __syncthreads();
}

// -- Copying by the bulk copy unit: memory -> shared memory -> memory, kStages tiles at a time. --

#if __CUDA_ARCH__ >= 900

__device__ inline uint32_t sharedAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void initializeBarrier(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sharedAddress(barrier)) : "memory");
}

__device__ inline void load(void *stage, const Tile &tile, uint64_t *barrier) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(tile.bytes)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(sharedAddress(stage)),
      "l"(tile.src), "r"(tile.bytes), "r"(sharedAddress(barrier))
      : "memory");
}

__device__ inline void waitForLoad(uint64_t *barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(sharedAddress(barrier)), "r"(parity)
                 : "memory");
}

__device__ inline void store(const Tile &tile, const void *stage) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(tile.dst),
               "r"(sharedAddress(stage)), "r"(tile.bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Issues the bulk copies and waits for their completion. Called by a single thread.
__device__ inline void copyInBulk(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  extern __shared__ __align__(128) char stages[];
  __shared__ uint64_t barriers[kStages];
  for (uint64_t &barrier : barriers)
    initializeBarrier(&barrier);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  // Peers and other kernels wrote this memory through the generic proxy, not the async proxy.
  asm volatile("fence.proxy.async;" ::: "memory");

  TileWalk loads = tilesFor(batch, copier, copiers), stores = loads;
  Tile tile;
  uint32_t loaded = 0;
  while (loaded < kStages && loads.next(tile)) {
    load(stages + loaded * kTileBytes, tile, &barriers[loaded]);
    ++loaded;
  }
  for (uint32_t stored = 0; stores.next(tile); ++stored) {
    const uint32_t stage = stored % kStages;
    waitForLoad(&barriers[stage], stored / kStages & 1);
    store(tile, stages + stage * kTileBytes);
    // The stage of the previous tile can be reused once that tile's store has read the stage.
    if (stored == 0 || !loads.next(tile))
      continue;
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    const uint32_t freed = loaded % kStages;
    load(stages + freed * kTileBytes, tile, &barriers[freed]);
    ++loaded;
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}

#endif

// -- The first block, and the workers. --

/// Returns the counter that is set to 1 once all awaits are complete and copies may begin.
__device__ inline DeviceCounter gate(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost]);
}

/// Waits until all awaits are complete. Called by all threads of a worker; only the first warp
/// waits. Polls flags in GPU memory directly, which is faster than waiting for the first block.
__device__ inline void passAwaits(const CopyAndSignal &batch) {
  if (batch.released)
    passNear(batch, batch.awaits, batch.awaitCount);
  else if (threadIdx.x < kWarp)
    passWhen(batch, false, [&] { return gate(batch).load(::cuda::memory_order_acquire) != 0; });
}

/// The first block copies up to this many bytes itself, because signaling a worker and waiting for
/// the worker's copy would take longer.
constexpr int64_t kMostBytesOfWarp = 2048;

/// Executes all copies in 4-byte words. Loads bypass L1, because a peer may just have written data.
__device__ inline void copyByWarp(const CopyAndSignal &batch) {
  constexpr uint32_t kWordsEach = kMostBytesOfWarp / (kWarp * sizeof(uint32_t));
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const auto *src = reinterpret_cast<const uint32_t *>(batch.copies[i].src);
    auto *dst = reinterpret_cast<uint32_t *>(batch.copies[i].dst);
    const auto words = static_cast<uint32_t>(batch.copies[i].bytes / sizeof(uint32_t));
    uint32_t read[kWordsEach];
#pragma unroll
    for (uint32_t w = 0; w < kWordsEach; ++w)
      if (const uint32_t at = w * kWarp + threadIdx.x; at < words)
        read[w] = __ldcg(src + at);
#pragma unroll
    for (uint32_t w = 0; w < kWordsEach; ++w)
      if (const uint32_t at = w * kWarp + threadIdx.x; at < words)
        dst[at] = read[w];
  }
}

/// The blocks that execute the copies.
enum class Movers { Workers, FirstBlock };

/// Sends the signals that follow the copies. Call only after the awaits' flags have been reset. A
/// signal between two copies also waits for the last copy, because the copies run concurrently and
/// end at the same time.
__device__ inline void finishMoves(const CopyAndSignal &batch) {
  const uint32_t lane = laneOfThread();
  // The fence is needed even if this launch sends no signals, because its writes to peers must be
  // visible by the time a later command signals the peers.
  if (batch.fencesMoves && lane < max(batch.signalCount, 1))
    publishToPeers();
  if (batch.signalCount == 0)
    return;
  if (lane < batch.signalCount)
    set(batch.signals[lane].flag);
  __syncwarp();
  if (lane == 0)
    report(batch, batch.signals[batch.signalCount - 1].value);
}

/// Executes the copies, or starts the workers' copies and waits for them, then sends the signals.
template <Movers kMovers> __device__ void makeMoves(const CopyAndSignal &batch) {
  if constexpr (kMovers == Movers::FirstBlock) {
    copyByWarp(batch);
    __threadfence();
  } else if (threadIdx.x == 0 && batch.copyCount != 0) {
    gate(batch).store(1, ::cuda::memory_order_release);
    for (uint32_t i = 0; i < batch.copyCount; ++i) {
      DeviceCounter counter(batch.counters[i]);
      while (counter.load(::cuda::memory_order_acquire) !=
             static_cast<uint32_t>(tilesOf(batch.copies[i])))
        ;
      counter.store(0, ::cuda::memory_order_relaxed);
    }
    // Every copying block had a tile to copy (tiles.h), so all copying blocks have passed the gate.
    gate(batch).store(0, ::cuda::memory_order_relaxed);
  }
  __syncwarp();
  if (takeAll(batch, batch.awaits, batch.awaitCount))
    finishMoves(batch);
}

/// Waits until all awaits are complete, then executes a worker's share of the copies.
template <bool InBulk>
__device__ void copyShare(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  passAwaits(batch);
  if constexpr (InBulk) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0)
      copyInBulk(batch, copier, copiers);
#endif
  } else {
    __syncthreads();
    copyByThreads(tilesFor(batch, copier, copiers));
  }
  if (threadIdx.x == 0)
    countTiles(batch, copier, copiers);
}

} // namespace braid::cuda
