//===- backends/cuda/copy_and_signal.h - signals, awaits and copies in one kernel -------------===//
//
// If every command were launched separately, the stream would idle for microseconds between
// launches. A single kernel therefore executes an entire small transfer:
//
//   ready signals   tell peers that they may write to, or read, this rank's memory
//   awaits          wait for the ready signals of peers
//   copies          each followed by a completion signal
//   a sum           adds the data that the copies transfer
//   a second shot   sends the sum to peers, and receives the peers' sums
//   arrivals        wait for the completion signals of peers' copies
//
// Every phase is optional. The first block sends the signals and resets the flags; the other
// blocks, called workers, copy and add. The phases take effect as if issued one after another: no
// copy begins before all awaits are complete, and no signal is sent before all preceding operations
// are complete and visible to its receiver. The copies run concurrently, and their signals are sent
// at the same time.
//
// A worker adds the data that it has copied, without waiting for other workers. In a second shot,
// each worker stores its sums in the peers' memory, waits for the peers' signals, then copies the
// sums that peers have stored in this rank's memory. In a launch without a second shot, a single
// block computes a sum if the block's threads can load all parts at once.
//
// Blocks that wait for a peer occupy shared memory and leave no room for a GEMM on their
// multiprocessor. These blocks must never occupy every multiprocessor, because the peer may be
// waiting for a GEMM on this GPU. Launches must therefore respect a budget (waiting_budget.h).
//
// Compiled by both nvcc and the host compiler; uses no fmt or LLVM types.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/run_guard.h"
#include "backends/cuda/tiles.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// The value that the host writes to flags to end all waits permanently. This value is larger than
/// any value that signals can produce.
constexpr uint32_t kReleasedFlag = 0x40000000;

/// A signal or an await. The kernel stores `value` to the step word when the command completes.
struct CopyAndSignalFlag {
  uint32_t *flag;
  uint32_t value;
};

/// The kernel's argument, which is passed by value.
struct CopyAndSignal {
  static constexpr uint32_t kMost = 16; ///< maximum length of each list

  /// The steps after a sum: awaits, stores of the sum to the addresses in `places`, signals that
  /// these stores are complete, arrivals, and copies. There is no second shot if `placeCount` is 0.
  struct SecondShot {
    uint32_t awaitCount = 0, placeCount = 0, signalCount = 0, copyCount = 0;
    CopyAndSignalFlag awaits[kMost], signals[kMost];
    char *places[kMost];
    CopyAndSignalCopy copies[kMost];
  };

  uint32_t readySignalCount = 0, awaitCount = 0, copyCount = 0, signalCount = 0, arrivalCount = 0;
  CopyAndSignalFlag readySignals[kMost], awaits[kMost], signals[kMost], arrivals[kMost];
  CopyAndSignalCopy copies[kMost];
  /// The fence before the ready signals makes earlier launches' writes to peers visible; the fence
  /// after the copies makes the copies visible. A fence takes 2 us. A signal needs no fence if its
  /// receiver then reads no data, or only data that earlier launches wrote to this GPU's memory,
  /// because peers read this memory through this GPU's cache. Both fields are true if flags are in
  /// host memory.
  bool fencesReadySignals = false, fencesMoves = false;
  Sum sum = {}; ///< no sum if `elements` is 0; otherwise canAddAlong() must be true
  SecondShot second;
  uint32_t *step = nullptr; ///< the stream's step word, which the host reads
  /// A word in host memory; kernels stop waiting for flags once this word is nonzero. Null if flags
  /// are in host memory, because the host then ends waits by writing to the flags.
  uint32_t *released = nullptr;
  /// kCounters words in GPU memory, all 0 before and after the launch. Concurrent launches must not
  /// share these words.
  uint32_t *counters = nullptr;
  /// In a caller's graph, the kernel may count the start of the run, the end of the run, or both
  /// (run_guard.h).
  RunGuard guard = {};
  bool beginsRun = false, endsRun = false;
  static constexpr uint32_t kCounters = kMost + 1; ///< one per copy, and one per launch
};

constexpr int kThreadsOfAdder = 512; ///< threads per worker in a launch with a sum

/// The maximum number of workers that may wait for peers concurrently.
struct CopyAndSignalBlocks {
  int ofOne = 32;     ///< in a launch with one copy, as in a pipeline
  int ofSeveral = 64; ///< in a launch with several copies, or with a sum
};

/// Returns true if the addresses and sizes of all copies are multiples of `bytes`.
bool isAligned(const CopyAndSignal &batch, size_t bytes);

/// Returns true if every copy of `batch` transfers exactly one part of `sum`, in aligned groups of
/// 16 bytes. If so, the sum reads each part from the copy's source instead of its destination.
bool canAddAlong(const CopyAndSignal &batch, const Sum &sum);

/// Returns true if the kernel can replace `copy` by also storing the sum of `batch` to `copy.dst`.
/// `copy.src` must be the entire sum, and no other command of the launch may access `copy.dst`.
bool canGive(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// Returns true if `copy` can follow the arrivals in the second shot of `batch`, that is, if it
/// does not conflict with memory accesses by slower blocks. `copy` must not overlap other copies.
bool canCopyLast(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// Launches the kernel. Copies and sums need no alignment. If the addresses and sizes of all copies
/// are multiples of 16 bytes and the GPU has a bulk copy unit (compute capability 9 or later), the
/// unit executes the copies. Otherwise, threads copy the data, in narrower words if necessary.
void launchCopyAndSignal(cudaStream_t stream, const CopyAndSignal &batch,
                         const CopyAndSignalBlocks &most, bool hasBulkCopies);

/// Loads the kernels, and raises their shared memory limits as needed.
cudaError_t loadCopyAndSignal();

} // namespace braid::cuda
