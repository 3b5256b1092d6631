//===- backends/cuda/copy_and_signal.cu - signals, awaits and copies as one kernel ------------===//

#include "backends/cuda/copy_and_signal.h"

#include "backends/cuda/add_groups.h"
#include "backends/cuda/granules.h"
#include "backends/cuda/tell_runs.h"

#include <algorithm>
#include <cuda/atomic>

namespace braid::cuda {
namespace {

using SystemFlag = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>;
using DeviceCounter = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;

__device__ uint32_t laneOfThread() { return threadIdx.x % kWarp; }

constexpr int kStages = 4;                      ///< tiles in flight in a block: 64 KiB on their way
constexpr int kWorkerThreads = kTeam * kStages; ///< threads of a block that copies or adds
static_assert(kWorkerThreads == kThreadsOfAdder);

// -- Flags. --

__device__ uint32_t look(uint32_t *flag) {
  return SystemFlag(*flag).load(::cuda::memory_order_acquire);
}

/// Set, or released by the host; not what some of the blocks that signal have added (signalShare).
__device__ bool isSet(uint32_t *flag) {
  const uint32_t value = look(flag);
  return value == 1 || value == kReleasedFlag;
}

/// Takes a flag away, and returns what it was. A flag that is not 1, as a released one, stays, so
/// that every later await passes, too. In the GPU's memory it is gone when this has returned,
/// without a fence; the host's memory has no such exchange.
__device__ uint32_t take(const CopyAndSignal &batch, uint32_t *flag) {
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

__device__ void set(uint32_t *flag) { SystemFlag(*flag).store(1, ::cuda::memory_order_relaxed); }

__device__ void report(const CopyAndSignal &batch, uint32_t value) {
  SystemFlag(*batch.step).store(value, ::cuda::memory_order_relaxed);
}

/// A peer that sees a later write of this thread also sees everything that this thread sees now.
__device__ void publishToPeers() {
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

// -- Copying by threads. --

__device__ TileWalk tilesFor(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  return TileWalk(batch.copies, batch.copyCount, copier, copiers);
}

/// Tells the first block how much of each copy this one has done, and makes it visible to it.
__device__ void countTiles(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  uint32_t done[CopyAndSignal::kMost] = {};
  TileWalk walk = tilesFor(batch, copier, copiers);
  for (Tile tile; walk.next(tile);)
    ++done[tile.copy];
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    if (done[i] != 0)
      DeviceCounter(batch.counters[i]).fetch_add(done[i], ::cuda::memory_order_release);
}

/// The granule behind this thread's: the next thread's, or, behind the last one of a warp, the
/// `later` one of the first.
__device__ Granule nextInWarp(const Granule &own, const Granule &later) {
  const uint32_t lane = laneOfThread();
  Granule next;
  for (int i = 0; i < 4; ++i)
    next.words[i] = __shfl_sync(~0u, lane == 0 ? later.words[i] : own.words[i], (lane + 1) % kWarp);
  return next;
}

/// A team's thread `thread` of one. All loads are on their way before the first store.
__device__ void copyTile(const Tile &tile, uint32_t thread) {
  const GranuleTile granules(tile);
  const uint32_t edgeAt = granules.edgeAt(thread);
  const char edge = thread < granules.edges ? tile.src[edgeAt] : 0;
  Granule read[kGranulesEach + 1] = {};
#pragma unroll
  for (uint32_t i = 0; i <= kGranulesEach; ++i)
    if (const uint32_t at = granuleOf(thread, i);
        at < granules.reads && (i < kGranulesEach || thread % kWarp == 0))
      read[i] = granules.src[at];
#pragma unroll
  for (uint32_t i = 0; i < kGranulesEach; ++i) {
    const Granule next = nextInWarp(read[i], read[i + 1]);
    if (const uint32_t at = granuleOf(thread, i); at < granules.writes)
      granules.dst[at] = assemble(read[i], next, granules.shift);
  }
  if (thread < granules.edges)
    tile.dst[edgeAt] = edge;
}

/// The block's teams take its tiles in turns, so that as much is on its way as in bulk.
__device__ void copyByThreads(TileWalk walk) {
  uint32_t turn = threadIdx.x / kTeam;
  for (Tile tile; walk.next(tile); turn = (turn + kStages - 1) % kStages)
    if (turn == 0)
      copyTile(tile, threadIdx.x % kTeam);
  __syncthreads();
}

// -- Copying by the bulk copy unit: memory -> shared memory -> memory, kStages tiles at a time. --

#if __CUDA_ARCH__ >= 900

__device__ uint32_t sharedAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void initializeBarrier(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sharedAddress(barrier)) : "memory");
}

__device__ void load(void *stage, const Tile &tile, uint64_t *barrier) {
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

__device__ void waitForLoad(uint64_t *barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(sharedAddress(barrier)), "r"(parity)
                 : "memory");
}

__device__ void store(const Tile &tile, const void *stage) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(tile.dst),
               "r"(sharedAddress(stage)), "r"(tile.bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// One thread: the unit does the rest.
__device__ void copyInBulk(const CopyAndSignal &batch, uint32_t copier, uint32_t copiers) {
  extern __shared__ __align__(128) char stages[];
  __shared__ uint64_t barriers[kStages];
  for (uint64_t &barrier : barriers)
    initializeBarrier(&barrier);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  // Peers and other kernels wrote this memory through the generic proxy, not the copy unit's.
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
    // The stage of the tile before is free when its store has read it.
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

// -- The first block. --

/// True when the host has ended all waits. Far away: to be asked seldom.
__device__ bool isReleased(const CopyAndSignal &batch) {
  return batch.released && look(batch.released) != 0;
}

/// Looks at each flag with a lane of its own until all are set. Where flags lie in the host's
/// memory, a look takes more than a microsecond, and many at the same time hold one another up; so
/// does the look for a release, which small problems should be over before.
__device__ void waitForAll(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
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

/// The awaits have passed: copies may begin.
__device__ DeviceCounter gate(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost]);
}

/// The arrivals have passed: the sum may begin.
__device__ DeviceCounter sumGate(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost + 1]);
}

/// A worker's first warp: until `isPassed` holds for all lanes.
template <class IsPassed>
__device__ void passWhen(const CopyAndSignal &batch, bool passes, IsPassed isPassed) {
  constexpr uint32_t kLooksBetween = 256; // for a release, which is far away
  for (uint32_t looks = 1; !__all_sync(~0u, passes); ++looks)
    passes = passes || isPassed() || (looks % kLooksBetween == 0 && isReleased(batch));
}

/// A worker's first warp: until flags on the GPU are set. They stay set.
__device__ void passNear(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                         uint32_t count) {
  const uint32_t lane = threadIdx.x;
  if (lane < kWarp)
    passWhen(batch, lane >= count, [&] { return isSet(flags[lane].flag); });
}

/// A worker's first warp: until the awaits have passed. Where flags are on the GPU it looks at them
/// itself, for a word of the first block comes later.
__device__ void passAwaits(const CopyAndSignal &batch) {
  if (batch.released)
    passNear(batch, batch.awaits, batch.awaitCount);
  else if (threadIdx.x < kWarp)
    passWhen(batch, false, [&] { return gate(batch).load(::cuda::memory_order_acquire) != 0; });
}

/// Workers that have passed the gate of the sum.
__device__ DeviceCounter sumPassed(const CopyAndSignal &batch) {
  return DeviceCounter(batch.counters[CopyAndSignal::kMost + 2]);
}

/// The first block copies at most this many bytes itself: telling a worker, and waiting until it is
/// done, takes longer.
constexpr int64_t kMostBytesOfWarp = 2048;

/// Copies words. A peer may have written them just now, so the loads bypass the L1 cache.
__device__ void copyByWarp(const CopyAndSignal &batch) {
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

/// The blocks that copy.
enum class Movers { Workers, FirstBlock };

/// Takes the flag of this lane, and returns what it was, or 0 where there is none.
__device__ uint32_t takeOwn(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                            uint32_t count) {
  const uint32_t lane = laneOfThread();
  return lane < count ? take(batch, flags[lane].flag) : 0;
}

/// Waits until the flags of all lanes are gone. Never false, which the compiler does not know: to
/// say so, every lane has to have its exchange back.
__device__ bool areTaken(uint32_t was) {
  constexpr uint32_t kNever = ~0u;
  const bool isDone = !__any_sync(~0u, was == kNever);
  __syncwarp();
  return isDone;
}

/// Workers look at flags, too, so they are taken when all have passed: a peer sets them again once
/// it has the signals behind what they guard, so these leave when all flags are known to be taken.
__device__ bool takeAll(const CopyAndSignal &batch, const CopyAndSignalFlag *flags,
                        uint32_t count) {
  return areTaken(takeOwn(batch, flags, count));
}

/// Sends the signals that follow the copies. The awaits' flags are taken already. A signal before
/// the last copy leaves with the others: the copies wait for nobody and end at the same time.
__device__ void finishMoves(const CopyAndSignal &batch) {
  const uint32_t lane = laneOfThread();
  // Without signals, too: what is written at peers has to be there when whoever waits for the copy
  // signals.
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

/// Lets the workers copy, and waits until they have.
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
    // Every block that copies has a tile (tiles.h), so every one has passed it.
    gate(batch).store(0, ::cuda::memory_order_relaxed);
  }
  __syncwarp();
  if (takeAll(batch, batch.awaits, batch.awaitCount))
    finishMoves(batch);
}

__device__ void passArrivals(const CopyAndSignal &batch) {
  waitForAll(batch, batch.arrivals, batch.arrivalCount);
}

__device__ void takeArrivals(const CopyAndSignal &batch) {
  if (const uint32_t lane = laneOfThread(); lane < batch.arrivalCount)
    take(batch, batch.arrivals[lane].flag);
}

// -- Adding. --

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

// -- The second shot. --

/// A worker's warp that has the fewest tiles to copy, and does what need not hold up the others.
constexpr uint32_t kLastWarp = kWorkerThreads / kWarp - 1;
__device__ bool isWarp(uint32_t number) { return threadIdx.x / kWarp == number; }

__device__ bool hasSecondShot(const CopyAndSignal &batch) { return batch.second.placeCount != 0; }

/// Counters of copies serve: nothing else counts tiles here.
enum SecondShotCounter : uint32_t { kPassed = 1, kArrived = 2 };

/// A worker adds this to each flag of the second shot's signals. The first block adds the rest that
/// makes the sum 1, so a flag is 1 when all blocks are done, in any order, and not before.
constexpr uint32_t kShareOfWorker = 1u << 16;

/// A worker's part of the signals, behind what its block has stored: it waits for no other block,
/// and its fence is the only one.
__device__ void signalShare(const CopyAndSignal &batch) {
  if (threadIdx.x < batch.second.signalCount)
    SystemFlag(*batch.second.signals[threadIdx.x].flag)
        .fetch_add(kShareOfWorker, ::cuda::memory_order_release);
}

/// The first block's part, behind the taking of flags that all have passed.
__device__ void signalRest(const CopyAndSignal &batch, uint32_t workers) {
  const CopyAndSignal::SecondShot &second = batch.second;
  if (threadIdx.x < second.signalCount)
    SystemFlag(*second.signals[threadIdx.x].flag)
        .fetch_add(1 - workers * kShareOfWorker, ::cuda::memory_order_relaxed);
  if (threadIdx.x == 0 && second.signalCount != 0)
    report(batch, second.signals[second.signalCount - 1].value);
}

/// A warp of each block, when that has looked at the flags of arrivals for the last time.
__device__ void leaveArrivals(const CopyAndSignal &batch) {
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
__device__ void coordinateSecondShot(const CopyAndSignal &batch) {
  const CopyAndSignal::SecondShot &second = batch.second;
  const uint32_t workers = gridDim.x - 1;
  // Without a word: the block that is the last to have read may not have said so yet.
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
__device__ void passSecondAwaits(const CopyAndSignal &batch) {
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
__device__ void finishSecondShot(const CopyAndSignal &batch) {
  __syncthreads();
  signalShare(batch);
  passNear(batch, batch.arrivals, batch.arrivalCount);
  __syncthreads();
  if (isWarp(kLastWarp))
    leaveArrivals(batch);
  copyByThreads(
      TileWalk(batch.second.copies, batch.second.copyCount, blockIdx.x - 1, gridDim.x - 1));
}

// -- Adding along copies. --

/// The last one of the blocks that count. What they have read needs no order: it has come. What
/// they keep does.
__device__ bool isLast(const CopyAndSignal &batch, uint32_t one = 1) {
  DeviceCounter count(batch.counters[0]);
  const uint32_t before = batch.sum.keepsParts ? count.fetch_add(one, ::cuda::memory_order_acq_rel)
                                               : count.fetch_add(one, ::cuda::memory_order_relaxed);
  return before == gridDim.x - 1;
}

/// A warp of each block. Its first thread says whether the block is the last one, behind the reads
/// of all others.
__device__ void leaveReads(const CopyAndSignal &batch, bool isLastBlock) {
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

// -- The kernels. --

/// A warp.
__device__ void giveReadySignals(const CopyAndSignal &batch) {
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

/// The first block, which is one warp of it.
template <class Adder, Movers kMovers = Movers::Workers>
__device__ void coordinate(const CopyAndSignal &batch) {
  const uint32_t lane = laneOfThread();
  RunCount run(batch, /*isOfWarp=*/true);
  giveReadySignals(batch);
  // The last block may be another one. If what it reports is not followed by more, nothing of this
  // one may come later.
  const bool isLastToTell = Adder::kIsAlong && batch.arrivalCount == 0 && batch.signalCount != 0 &&
                            batch.second.placeCount == 0;
  waitForAll(batch, batch.awaits, batch.awaitCount, !isLastToTell, &run);
  run.tellBegin(batch); // where nothing is awaited
  if constexpr (Adder::kIsAlong) {
    leaveReads(batch, lane == 0 && isLast(batch));
    if (hasSecondShot(batch))
      coordinateSecondShot(batch);
  } else {
    makeMoves<kMovers>(batch);
    passArrivals(batch);
    Adder::begin(batch);
    takeArrivals(batch);
  }
  run.tellEnd(batch);
}

/// Threads of a block. The bulk copy unit needs one thread, and the first block one warp.
template <bool InBulk, class Adder>
constexpr int kThreads = !InBulk || Adder::kAdds ? kWorkerThreads : int(kTeam);

/// A worker's share of the copies, behind the gate.
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

template <bool InBulk, class Adder>
__global__ void __launch_bounds__(kThreads<InBulk, Adder>)
    copyAndSignalKernel(const __grid_constant__ CopyAndSignal batch,
                        const __grid_constant__ Shares shares) {
  if (blockIdx.x == 0) {
    if (threadIdx.x < 32)
      coordinate<Adder>(batch);
    return;
  }
  if constexpr (Adder::kIsAlong) {
    Adder::copyAndAdd(batch, shares);
  } else {
    if (const uint32_t worker = blockIdx.x - 1; worker < shares.copiers)
      copyShare<InBulk>(batch, worker, shares.copiers);
    Adder::add(batch, shares);
  }
}

/// One block adds along the copies, without a second shot. What blocks tell one another through the
/// GPU's memory takes longer than a sum this small.
template <class Types>
__global__ void __launch_bounds__(kWorkerThreads)
    addAloneKernel(const __grid_constant__ CopyAndSignal batch,
                   const __grid_constant__ Shares shares) {
  FromSources::find(batch);
  const bool coordinates = isWarp(kLastWarp);
  RunCount run(batch, coordinates);
  uint32_t taken = 0;
  if (coordinates) {
    giveReadySignals(batch);
    waitForAll(batch, batch.awaits, batch.awaitCount, /*tells=*/true, &run);
    run.tellBegin(batch); // where nothing is awaited
    taken = takeOwn(batch, batch.awaits, batch.awaitCount);
  }
  __syncthreads();
  addOwn<Types, kGroupOf<Types>>(batch.sum, shares.sum, threadIdx.x, Alone(batch, taken));
  if (!coordinates)
    return;
  passArrivals(batch);
  takeArrivals(batch);
  run.tellEnd(batch);
}

/// The kernel of signals and awaits alone: one warp. It waits beside GEMMs whose blocks leave about
/// a thousand registers of a multiprocessor, 32 a thread of a warp. With more, it would take a
/// multiprocessor from them for as long as it waits: 5 % of large GEMMs.
__global__ void __launch_bounds__(32) signalKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate<NoSum>(batch);
}

/// The same with copies of a few bytes.
__global__ void __launch_bounds__(32) copyWordsKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate<NoSum, Movers::FirstBlock>(batch);
}

constexpr int kSharedBytes = kStages * int(kTileBytes);

bool isAligned(const CopyAndSignal &batch, size_t bytes) {
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const CopyAndSignalCopy &copy = batch.copies[i];
    const auto bits = reinterpret_cast<uintptr_t>(copy.dst) |
                      reinterpret_cast<uintptr_t>(copy.src) | static_cast<uintptr_t>(copy.bytes);
    if (bits % bytes != 0)
      return false;
  }
  return true;
}

bool isForWarp(const CopyAndSignal &batch) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    bytes += batch.copies[i].bytes;
  return batch.sum.elements == 0 && bytes <= kMostBytesOfWarp && isAligned(batch, sizeof(uint32_t));
}

struct Kernel {
  void (*launch)(CopyAndSignal, Shares);
  int threads, sharedBytes;
};

template <class Adder> Kernel kernelOf(bool inBulk) {
  return inBulk ? Kernel{copyAndSignalKernel<true, Adder>, kThreads<true, Adder>, kSharedBytes}
                : Kernel{copyAndSignalKernel<false, Adder>, kThreads<false, Adder>, 0};
}

Kernel kernelFor(const Sum &sum, bool inBulk) {
  return withSumTypes(sum,
                      [&](auto types) { return kernelOf<SumBehind<decltype(types)>>(inBulk); });
}

Kernel kernelAlong(const Sum &sum) {
  return withSumTypes(sum, [&](auto types) -> Kernel {
    using Adder = SumAlong<decltype(types)>;
    return {copyAndSignalKernel<false, Adder>, kThreads<false, Adder>, 0};
  });
}

Kernel kernelAlone(const Sum &sum) {
  return withSumTypes(sum, [&](auto types) -> Kernel {
    return {addAloneKernel<decltype(types)>, kWorkerThreads, 0};
  });
}

cudaError_t load(const Kernel &kernel) {
  const auto *function = reinterpret_cast<const void *>(kernel.launch);
  cudaFuncAttributes attributes;
  if (cudaError_t code = cudaFuncGetAttributes(&attributes, function);
      code != cudaSuccess || kernel.sharedBytes == 0)
    return code;
  return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kernel.sharedBytes);
}

int64_t blocksFor(int64_t work, int64_t ofBlock, int most) {
  return std::min<int64_t>((work + ofBlock - 1) / ofBlock, most);
}

} // namespace

bool isForWorkers(const Sum &sum, const CopyAndSignalBlocks &most) {
  constexpr int64_t kLoads = kMostBytesOfAdder / (16 * kWorkerThreads); // of a thread
  static_assert(kLoads == 8);
  return sum.elements / widthFor(sum) * sum.count <= kLoads * kWorkerThreads * most.ofSeveral;
}

namespace {

bool overlap(const void *a, int64_t bytesOfA, const void *b, int64_t bytesOfB) {
  const auto *first = static_cast<const char *>(a), *second = static_cast<const char *>(b);
  return first < second + bytesOfB && second < first + bytesOfA;
}

/// Each thread asks for its share at once, as a worker of several does.
bool isForOneBlock(const CopyAndSignal &batch) {
  return batch.addsAlong && batch.second.placeCount == 0 &&
         isForWorkers(batch.sum, {/*ofOne=*/1, /*ofSeveral=*/1});
}

/// The sum writes what a copy still reads or writes, or a copy writes the bias: in one launch
/// nothing orders them.
bool meetsCopies(const CopyAndSignal &batch, const Sum &sum) {
  const int64_t dstBytes = sum.elements * sizeOf(sum.result);
  const int64_t biasBytes = sum.bias ? sum.biasElements * sizeOf(sum.element) : 0;
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const CopyAndSignalCopy &copy = batch.copies[i];
    if (overlap(sum.dst, dstBytes, copy.src, copy.bytes) ||
        overlap(sum.dst, dstBytes, copy.dst, copy.bytes) ||
        overlap(sum.bias, biasBytes, copy.dst, copy.bytes))
      return true;
  }
  return false;
}

} // namespace

bool canAddAlong(const CopyAndSignal &batch, const Sum &sum) {
  const int64_t wide = widthFor(sum);
  if (!batch.released || batch.copyCount == 0 || sum.count > CopyAndSignal::kMost + 1 ||
      wide == 1 || sum.elements % wide != 0 || !isAligned(batch, 16))
    return false;
  const int64_t bytes = sum.elements / wide * 16; // of a part
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const int64_t at = batch.copies[i].dst - static_cast<const char *>(sum.parts);
    if (batch.copies[i].bytes != bytes || at < 0 || at % sum.stride != 0 ||
        at / sum.stride >= sum.count)
      return false;
  }
  return !meetsCopies(batch, sum);
}

/// The copy writes nothing that the sum reads or writes.
static bool isApartFromSum(const Sum &sum, const CopyAndSignalCopy &copy) {
  const int64_t dstBytes = sum.elements * sizeOf(sum.result);
  const int64_t biasBytes = sum.bias ? sum.biasElements * sizeOf(sum.element) : 0;
  const int64_t partsBytes = (sum.count - 1) * sum.stride + sum.elements * sizeOf(sum.partial);
  return !overlap(sum.dst, dstBytes, copy.dst, copy.bytes) &&
         !overlap(sum.bias, biasBytes, copy.dst, copy.bytes) &&
         !overlap(sum.parts, partsBytes, copy.dst, copy.bytes);
}

bool canGive(const CopyAndSignal &batch, const CopyAndSignalCopy &copy) {
  const int64_t bytes = batch.sum.elements * sizeOf(batch.sum.result);
  return batch.addsAlong && copy.src == batch.sum.dst && copy.bytes == bytes &&
         reinterpret_cast<uintptr_t>(copy.dst) % 16 == 0 && isApartFromSum(batch.sum, copy);
}

bool canCopyLast(const CopyAndSignal &batch, const CopyAndSignalCopy &copy) {
  const int64_t dstBytes = batch.sum.elements * sizeOf(batch.sum.result);
  return !overlap(batch.sum.dst, dstBytes, copy.src, copy.bytes) && isApartFromSum(batch.sum, copy);
}

void launchCopyAndSignal(cudaStream_t stream, const CopyAndSignal &batch,
                         const CopyAndSignalBlocks &most, bool hasBulkCopies) {
  int64_t tiles = 0;
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    tiles += tilesOf(batch.copies[i]);
  const int64_t copiers = blocksFor(tiles, 1, batch.copyCount == 1 ? most.ofOne : most.ofSeveral);
  const bool inBulk = tiles != 0 && hasBulkCopies && isAligned(batch, 16);
  const bool adds = batch.sum.elements != 0;
  const int64_t wide = adds ? widthFor(batch.sum) : 1;
  const int64_t adders = blocksFor(batch.sum.elements / wide, kWorkerThreads, most.ofSeveral);
  const int64_t workers = std::max(copiers, adders);
  if (workers == 0) {
    signalKernel<<<1, 32, 0, stream>>>(batch);
    return;
  }
  if (isForWarp(batch)) {
    copyWordsKernel<<<1, 32, 0, stream>>>(batch);
    return;
  }
  if (isForOneBlock(batch)) {
    const Shares all{0, true, sumWalkFor(batch.sum, wide, kWorkerThreads)};
    kernelAlone(batch.sum).launch<<<1, kWorkerThreads, 0, stream>>>(batch, all);
    return;
  }
  const int64_t blocks = batch.addsAlong ? adders : workers;
  const Shares shares{static_cast<uint32_t>(copiers), wide > 1,
                      sumWalkFor(batch.sum, wide, blocks * kWorkerThreads)};
  const Kernel kernel = batch.addsAlong ? kernelAlong(batch.sum)
                        : adds          ? kernelFor(batch.sum, inBulk)
                                        : kernelOf<NoSum>(inBulk);
  kernel.launch<<<static_cast<unsigned>(1 + blocks), static_cast<unsigned>(kernel.threads),
                  static_cast<size_t>(kernel.sharedBytes), stream>>>(batch, shares);
}

cudaError_t loadCopyAndSignal() {
  cudaFuncAttributes attributes;
  cudaError_t code = cudaFuncGetAttributes(&attributes, signalKernel);
  if (code == cudaSuccess)
    code = cudaFuncGetAttributes(&attributes, copyWordsKernel);
  auto loadNext = [&](const Kernel &kernel) { code = code == cudaSuccess ? load(kernel) : code; };
  for (bool inBulk : {false, true}) {
    loadNext(kernelOf<NoSum>(inBulk));
    forAllSumTypes([&](const Sum &sum) { loadNext(kernelFor(sum, inBulk)); });
  }
  forAllSumTypes([&](const Sum &sum) {
    loadNext(kernelAlong(sum));
    loadNext(kernelAlone(sum));
  });
  return code;
}

} // namespace braid::cuda
