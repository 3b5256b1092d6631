//===- backends/cuda/copy_and_signal.cu - signals, awaits and copies in one kernel ------------===//

#include "backends/cuda/copy_and_signal.h"

#include "backends/cuda/copy_and_signal/sums.h"

#include <algorithm>

namespace braid::cuda {
namespace {

/// Executed by the first warp of block 0 in launches without a sum.
template <Movers kMovers = Movers::Workers> __device__ void coordinate(const CopyAndSignal &batch) {
  RunCount run(batch, /*isOfWarp=*/true);
  giveReadySignals(batch);
  waitForAll(batch, batch.awaits, batch.awaitCount, /*tells=*/true, &run);
  run.tellBegin(batch); // in case there are no awaits
  makeMoves<kMovers>(batch);
  passArrivals(batch);
  takeArrivals(batch);
  run.tellEnd(batch);
}

/// Executed by the first warp of block 0 in launches with a sum.
__device__ void coordinateSum(const CopyAndSignal &batch) {
  RunCount run(batch, /*isOfWarp=*/true);
  giveReadySignals(batch);
  // Another block may finish last and write the final report, which this block must not overwrite.
  const bool isLastToTell =
      batch.arrivalCount == 0 && batch.signalCount != 0 && !hasSecondShot(batch);
  waitForAll(batch, batch.awaits, batch.awaitCount, !isLastToTell, &run);
  run.tellBegin(batch); // in case there are no awaits
  leaveReads(batch, laneOfThread() == 0 && isLast(batch));
  if (hasSecondShot(batch))
    coordinateSecondShot(batch);
  run.tellEnd(batch);
}

/// Threads per block. One thread can drive the bulk copy unit, and block 0 needs only one warp.
template <bool InBulk> constexpr int kThreads = InBulk ? int(kTeam) : kWorkerThreads;

template <bool InBulk>
__global__ void __launch_bounds__(kThreads<InBulk>)
    copyKernel(const __grid_constant__ CopyAndSignal batch) {
  if (blockIdx.x != 0)
    copyShare<InBulk>(batch, blockIdx.x - 1, gridDim.x - 1);
  else if (threadIdx.x < kWarp)
    coordinate(batch);
}

template <class Types>
__global__ void __launch_bounds__(kWorkerThreads)
    addKernel(const __grid_constant__ CopyAndSignal batch, const __grid_constant__ SumWalk walk) {
  if (blockIdx.x != 0)
    copyAndAdd<Types>(batch, walk);
  else if (threadIdx.x < kWarp)
    coordinateSum(batch);
}

/// Computes a small sum without a second shot in a single block, because synchronizing several
/// blocks through GPU memory would take longer than the sum itself.
template <class Types>
__global__ void __launch_bounds__(kWorkerThreads)
    addAloneKernel(const __grid_constant__ CopyAndSignal batch,
                   const __grid_constant__ SumWalk walk) {
  FromSources::find(batch);
  const bool coordinates = isWarp(kLastWarp);
  RunCount run(batch, coordinates);
  uint32_t taken = 0;
  if (coordinates) {
    giveReadySignals(batch);
    waitForAll(batch, batch.awaits, batch.awaitCount, /*tells=*/true, &run);
    run.tellBegin(batch); // in case there are no awaits
    taken = takeOwn(batch, batch.awaits, batch.awaitCount);
  }
  __syncthreads();
  addOwn<Types>(batch.sum, walk, threadIdx.x, Alone(batch, taken));
  if (!coordinates)
    return;
  passArrivals(batch);
  takeArrivals(batch);
  run.tellEnd(batch);
}

/// The kernel for signals and awaits without copies. Its single warp uses at most 32 registers per
/// thread, so it can wait next to GEMM blocks that use most of a multiprocessor's registers. A
/// larger kernel would keep GEMM blocks off its multiprocessor, which slows large GEMMs by 5 %.
__global__ void __launch_bounds__(32) signalKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate(batch);
}

/// Like signalKernel, but also copies a few bytes.
__global__ void __launch_bounds__(32) copyWordsKernel(const __grid_constant__ CopyAndSignal batch) {
  coordinate<Movers::FirstBlock>(batch);
}

constexpr int kSharedBytes = kStages * int(kTileBytes);

bool isForWarp(const CopyAndSignal &batch) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    bytes += batch.copies[i].bytes;
  return bytes <= kMostBytesOfWarp && isAligned(batch, sizeof(uint32_t));
}

int64_t blocksFor(int64_t work, int64_t ofBlock, int most) {
  return std::min<int64_t>((work + ofBlock - 1) / ofBlock, most);
}

/// Returns true if one block's threads can load all parts of the sum at once.
bool isForOneBlock(const CopyAndSignal &batch, int64_t groups) {
  constexpr int64_t kLoads = 8; // per thread
  return batch.second.placeCount == 0 && groups * batch.sum.count <= kLoads * kWorkerThreads;
}

void launchAdding(cudaStream_t stream, const CopyAndSignal &batch, int most) {
  const int64_t wide = widthFor(batch.sum), groups = batch.sum.elements / wide;
  const bool isAlone = isForOneBlock(batch, groups);
  const int64_t adders = isAlone ? 1 : blocksFor(groups, kWorkerThreads, most);
  const SumWalk walk = sumWalkFor(batch.sum, wide, adders * kWorkerThreads);
  withSumTypes(batch.sum, [&](auto types) {
    using Types = decltype(types);
    if (isAlone)
      addAloneKernel<Types><<<1, kWorkerThreads, 0, stream>>>(batch, walk);
    else
      addKernel<Types>
          <<<static_cast<unsigned>(1 + adders), kWorkerThreads, 0, stream>>>(batch, walk);
  });
}

} // namespace

void launchCopyAndSignal(cudaStream_t stream, const CopyAndSignal &batch,
                         const CopyAndSignalBlocks &most, bool hasBulkCopies) {
  if (batch.sum.elements != 0)
    return launchAdding(stream, batch, most.ofSeveral);
  int64_t tiles = 0;
  for (uint32_t i = 0; i < batch.copyCount; ++i)
    tiles += tilesOf(batch.copies[i]);
  const int64_t copiers = blocksFor(tiles, 1, batch.copyCount == 1 ? most.ofOne : most.ofSeveral);
  const auto blocks = static_cast<unsigned>(1 + copiers);
  if (copiers == 0)
    signalKernel<<<1, kWarp, 0, stream>>>(batch);
  else if (isForWarp(batch))
    copyWordsKernel<<<1, kWarp, 0, stream>>>(batch);
  else if (hasBulkCopies && isAligned(batch, 16))
    copyKernel<true><<<blocks, kThreads<true>, kSharedBytes, stream>>>(batch);
  else
    copyKernel<false><<<blocks, kThreads<false>, 0, stream>>>(batch);
}

cudaError_t loadCopyAndSignal() {
  KernelLoader loader;
  loader.load(signalKernel);
  loader.load(copyWordsKernel);
  loader.load(copyKernel<true>, kSharedBytes);
  loader.load(copyKernel<false>);
  forAllSumTypes([&](const Sum &sum) {
    withSumTypes(sum, [&](auto types) {
      loader.load(addKernel<decltype(types)>);
      loader.load(addAloneKernel<decltype(types)>);
    });
  });
  return loader.code();
}

} // namespace braid::cuda
