//===- backends/cuda/copy_and_signal.cu - signals, awaits and copies as one kernel ------------===//

#include "backends/cuda/copy_and_signal.h"

#include "backends/cuda/copy_and_signal/sums.h"

#include <algorithm>

namespace braid::cuda {
namespace {

/// Executed by the first warp of the first block.
template <class Adder, Movers kMovers = Movers::Workers>
__device__ void coordinate(const CopyAndSignal &batch) {
  const uint32_t lane = laneOfThread();
  RunCount run(batch, /*isOfWarp=*/true);
  giveReadySignals(batch);
  // Another block may be the last one. If its report is the final one, this block must not report
  // anything after it.
  const bool isLastToTell = Adder::kIsAlong && batch.arrivalCount == 0 && batch.signalCount != 0 &&
                            batch.second.placeCount == 0;
  waitForAll(batch, batch.awaits, batch.awaitCount, !isLastToTell, &run);
  run.tellBegin(batch); // if there are no awaits
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

/// Threads of a block. The bulk copy unit needs one thread, and the first block needs one warp.
template <bool InBulk, class Adder>
constexpr int kThreads = !InBulk || Adder::kAdds ? kWorkerThreads : int(kTeam);

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

/// A single block adds along the copies, without a second shot. Communication between blocks
/// through the GPU's memory would take longer than such a small sum.
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
    run.tellBegin(batch); // if there are no awaits
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

/// The kernel for signals and awaits alone has one warp. It can wait next to GEMMs whose blocks
/// leave about a thousand registers of a multiprocessor, 32 per thread of a warp. With more
/// registers, it would occupy a multiprocessor while it waits, which costs large GEMMs 5 %.
__global__ void __launch_bounds__(32) signalKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate<NoSum>(batch);
}

/// The same, with copies of a few bytes.
__global__ void __launch_bounds__(32) copyWordsKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate<NoSum, Movers::FirstBlock>(batch);
}

constexpr int kSharedBytes = kStages * int(kTileBytes);

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

Kernel kernelBehind(const Sum &sum, bool inBulk) {
  return withSumTypes(sum,
                      [&](auto types) { return kernelOf<SumBehind<decltype(types)>>(inBulk); });
}

Kernel kernelAlong(const Sum &sum) {
  return withSumTypes(sum, [](auto types) {
    using Adder = SumAlong<decltype(types)>;
    return Kernel{copyAndSignalKernel<false, Adder>, kThreads<false, Adder>, 0};
  });
}

Kernel kernelAlone(const Sum &sum) {
  return withSumTypes(sum, [](auto types) {
    return Kernel{addAloneKernel<decltype(types)>, kWorkerThreads, 0};
  });
}

int64_t blocksFor(int64_t work, int64_t ofBlock, int most) {
  return std::min<int64_t>((work + ofBlock - 1) / ofBlock, most);
}

/// Each thread loads its share at once, as with several workers.
bool isForOneBlock(const CopyAndSignal &batch) {
  return batch.addsAlong && batch.second.placeCount == 0 &&
         isForWorkers(batch.sum, {/*ofOne=*/1, /*ofSeveral=*/1});
}

} // namespace

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
                        : adds          ? kernelBehind(batch.sum, inBulk)
                                        : kernelOf<NoSum>(inBulk);
  kernel.launch<<<static_cast<unsigned>(1 + blocks), static_cast<unsigned>(kernel.threads),
                  static_cast<size_t>(kernel.sharedBytes), stream>>>(batch, shares);
}

cudaError_t loadCopyAndSignal() {
  KernelLoader loader;
  const auto load = [&](const Kernel &kernel) { loader.load(kernel.launch, kernel.sharedBytes); };
  loader.load(signalKernel);
  loader.load(copyWordsKernel);
  for (bool inBulk : {false, true}) {
    load(kernelOf<NoSum>(inBulk));
    forAllSumTypes([&](const Sum &sum) { load(kernelBehind(sum, inBulk)); });
  }
  forAllSumTypes([&](const Sum &sum) {
    load(kernelAlong(sum));
    load(kernelAlone(sum));
  });
  return loader.code();
}

} // namespace braid::cuda
