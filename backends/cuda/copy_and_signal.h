//===- backends/cuda/copy_and_signal.h - signals, awaits and copies as one kernel -------------===//
//
// Each command in a sequence costs a launch, and between launches the stream idles for
// microseconds. A single kernel executes all parts of a small transfer:
//
//   ready signals   signals that peers may write, or read, this rank's memory
//   awaits          waits for the ready signals of peers
//   copies          with the signals that they are complete
//   a sum           of the data that the copies transfer
//   a second shot   which sends that sum to peers, and receives theirs
//   arrivals        waits for the signals of peers' copies
//
// Each part may be empty. The first block makes the signals and resets the flags; the other blocks,
// the workers, copy and add. The parts take effect as if issued one after the other: no copy begins
// before all awaits have passed, and no signal is sent before everything that precedes it is
// complete and visible to all. The copies overlap one another, and their signals are sent together.
//
// A worker adds the data that it has copied, and waits for no other worker: the sum costs no extra
// step. In a second shot, each worker stores its sums at peers, independently of other workers, and
// copies the sums that peers have stored here once their signals have arrived. Without a second
// shot, a single block computes a sum that is small enough for it to load at once.
//
// Blocks that wait for a peer occupy shared memory, and leave no room for a GEMM on their
// multiprocessor. So they must never occupy every multiprocessor: the peer may be waiting for that
// GEMM. Launches must respect a budget (waiting_budget.h).
//
// Compiled by nvcc and by the host's compiler; uses no fmt or LLVM type.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/run_guard.h"
#include "backends/cuda/tiles.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

/// Value that the host writes into flags to end all waits permanently. It is larger than any
/// signal.
constexpr uint32_t kReleasedFlag = 0x40000000;

/// A signal or an await. On completion, the kernel stores `value` into its step word, which the
/// host reads.
struct CopyAndSignalFlag {
  uint32_t *flag;
  uint32_t value;
};

/// Passed to the kernel by value.
struct CopyAndSignal {
  static constexpr uint32_t kMost = 16; ///< entries of each list

  /// The steps after a sum: awaits, the sum to `placeCount` places, the signals
  /// for these, the arrivals, and copies. Empty without places.
  struct SecondShot {
    uint32_t awaitCount = 0, placeCount = 0, signalCount = 0, copyCount = 0;
    CopyAndSignalFlag awaits[kMost], signals[kMost];
    char *places[kMost];
    CopyAndSignalCopy copies[kMost];
  };

  uint32_t readySignalCount = 0, awaitCount = 0, copyCount = 0, signalCount = 0, arrivalCount = 0;
  CopyAndSignalFlag readySignals[kMost], awaits[kMost], signals[kMost], arrivals[kMost];
  CopyAndSignalCopy copies[kMost];
  /// The fence before the ready signals makes the writes of earlier launches to peers' memory
  /// visible to peers; the fence after the copies does so for the copies. A fence takes 2 us. A
  /// signal needs none if the peer then reads nothing, or reads only what earlier launches wrote to
  /// this GPU's memory, because peers read that through the same cache. Both are true if flags are
  /// in host memory.
  bool fencesReadySignals = false, fencesMoves = false;
  Sum sum = {}; ///< no sum if it has no elements; otherwise see canAddAlong()
  SecondShot second;
  uint32_t *step = nullptr; ///< the stream's step word, which the host reads
  /// A word in host memory; once it is not 0, no flag is awaited any more. Null if flags are in
  /// host memory: the host then sets the flags themselves.
  uint32_t *released = nullptr;
  /// kCounters words in the GPU's memory, 0 before and after the launch. Concurrent launches must
  /// not share them.
  uint32_t *counters = nullptr;
  /// For a run in a caller's graph: the kernel counts the beginning of the run, its end, or both
  /// (run_guard.h).
  RunGuard guard = {};
  bool beginsRun = false, endsRun = false;
  static constexpr uint32_t kCounters = kMost + 1; ///< one for each copy, and one for the launch
};

constexpr int kThreadsOfAdder = 512; ///< threads of a worker that adds

/// The maximum number of workers that may wait for peers concurrently.
struct CopyAndSignalBlocks {
  int ofOne = 32;     ///< in a launch with one copy, which is part of a pipeline
  int ofSeveral = 64; ///< in a launch with several copies, or with a sum
};

/// Returns true if the addresses and sizes of all copies are multiples of `bytes`.
bool isAligned(const CopyAndSignal &batch, size_t bytes);

/// Returns true if every copy of `batch` is a whole part of `sum`, and both consist of aligned
/// groups of 16 bytes. The sum then reads each part from the copy's source instead of its
/// destination.
bool canAddAlong(const CopyAndSignal &batch, const Sum &sum);

/// Returns true if the sum of `batch` can also be stored to `copy.dst`: the copy
/// must have the whole sum as its source, and a destination that nothing else in the launch reads.
bool canGive(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// Returns true if `copy` can follow the arrivals of the second shot of `batch`: it must not access
/// anything that slower blocks may still read or write. It overlaps no other copy.
bool canCopyLast(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// Launches the kernel. Copies and sums need no alignment. If the addresses and sizes of all copies
/// are multiples of 16 bytes, the bulk copy unit executes them if there is one (compute capability
/// 9 or later); otherwise threads do, in shorter words if necessary.
void launchCopyAndSignal(cudaStream_t stream, const CopyAndSignal &batch,
                         const CopyAndSignalBlocks &most, bool hasBulkCopies);

/// Loads the kernels, and lets them use the shared memory that they need.
cudaError_t loadCopyAndSignal();

} // namespace braid::cuda
