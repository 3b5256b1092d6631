//===- backends/cuda/copy_and_signal.h - signals, awaits and copies as one kernel -------------===//
//
// Each command in a sequence costs a launch, and between launches the stream idles for
// microseconds. A single kernel executes all parts of a small transfer:
//
//   ready signals   signals that peers may write, or read, this rank's memory
//   awaits          waits for the ready signals of peers
//   copies          with the signals that they are complete
//   arrivals        waits for the signals of peers' copies
//   a sum           of the arrived data
//   a second shot   which sends that sum to peers, and receives theirs
//
// Each part may be empty. The first block makes the signals and takes the flags away; the others,
// the workers, copy and add. The order is as if the parts were issued one after the other: no copy
// begins before all awaits have passed, no signal leaves before all that stands before it is done
// and visible to all, and nothing is added before all of that. The copies overlap one another, and
// their signals leave together.
//
// A sum of data that the copies themselves bring may precede the arrivals. A worker then adds the
// data that it has copied, and waits for no other worker: the sum costs no extra step. A second
// shot may follow: each worker stores its sums at peers, independently of other workers, and copies
// sums that peers have stored here once they have signalled them. Without a second shot, a sum
// small enough for one block to load at once is computed by that block alone.
//
// Blocks that wait for a peer occupy shared memory, and leave no room for a GEMM on their
// multiprocessor. So there must never be one on every multiprocessor: the peer may be waiting for
// that GEMM. Launches must respect a budget (waiting_budget.h).
//
// Compiled by nvcc and by the host's compiler; names no fmt or LLVM type.
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

  /// Behind a sum that is added along the copies: awaits; the sum to as many places, and then the
  /// signals that it is there; the arrivals; copies. Without a place there is none.
  struct SecondShot {
    uint32_t awaitCount = 0, placeCount = 0, signalCount = 0, copyCount = 0;
    CopyAndSignalFlag awaits[kMost], signals[kMost];
    char *places[kMost];
    CopyAndSignalCopy copies[kMost];
  };

  uint32_t readySignalCount = 0, awaitCount = 0, copyCount = 0, signalCount = 0, arrivalCount = 0;
  CopyAndSignalFlag readySignals[kMost], awaits[kMost], signals[kMost], arrivals[kMost];
  CopyAndSignalCopy copies[kMost];
  /// Before the ready signals, peers see what earlier launches wrote to peers' memory; behind the
  /// copies, they see what these write. A fence takes 2 us. A signal needs none behind which the
  /// peer reads nothing, or only what earlier launches wrote to this GPU's memory: that is in the
  /// cache through which peers read it. Where flags are in the host's memory, both are true.
  bool fencesReadySignals = false, fencesMoves = false;
  Sum sum = {};           ///< none if it has no elements
  bool addsAlong = false; ///< the sum comes before the arrivals; canAddAlong()
  SecondShot second;
  uint32_t *step = nullptr; ///< the stream's word, which the host reads
  /// A word in the host's memory: once it is not 0, no flag is awaited any more. Null if flags are
  /// in the host's memory: then the host sets the flags themselves.
  uint32_t *released = nullptr;
  /// kCounters of them in the GPU's memory, 0 before and after; no launch that may run at the
  /// same time has the same ones.
  uint32_t *counters = nullptr;
  /// For a run in a caller's graph: the kernel counts that the run begins here, ends here, or both
  /// (run_guard.h).
  RunGuard guard = {};
  bool beginsRun = false, endsRun = false;
  static constexpr uint32_t kCounters = kMost + 3; ///< one for each copy, and three for the launch
};

/// A worker that adds after the arrivals reads at most this many bytes, so that each of its threads
/// can load its whole share at once.
constexpr int64_t kMostBytesOfAdder = 64 << 10;
constexpr int kThreadsOfAdder = 512; ///< threads of a worker that adds

/// The number of workers that may wait for peers at the same time.
struct CopyAndSignalBlocks {
  int ofOne = 32;     ///< that copy in a launch with one copy, which is one of a pipeline
  int ofSeveral = 64; ///< that copy in a launch with more, and that add
};

/// Is everything about the copies a multiple of `bytes`: addresses and sizes?
bool isAligned(const CopyAndSignal &batch, size_t bytes);

/// Is a sum so small that so many workers add it at once? A larger one is done sooner by a kernel
/// of its own, on all processors.
bool isForWorkers(const Sum &sum, const CopyAndSignalBlocks &most);

/// Is every copy of `batch` a whole part of `sum`, and can both be done by groups of 16 bytes?
/// The sum then reads each part from the copy's source, not from its destination.
bool canAddAlong(const CopyAndSignal &batch, const Sum &sum);

/// May the sum of `batch`, which is added along, go to `copy.dst`, too? It may if all of it does,
/// and the place is apart from what others still read.
bool canGive(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// May `copy` be behind the arrivals of the second shot of `batch`? It may if it meets nothing
/// that blocks read or write which are not as far. It meets no other copy.
bool canCopyLast(const CopyAndSignal &batch, const CopyAndSignalCopy &copy);

/// Launches it. Neither copies nor a sum need alignment. Where everything about copies is a
/// multiple of 16 bytes, the bulk copy unit makes them if there is one (compute capability 9 on);
/// else threads do (granules.h).
void launchCopyAndSignal(cudaStream_t stream, const CopyAndSignal &batch,
                         const CopyAndSignalBlocks &most, bool hasBulkCopies);

/// Loads the kernels, and allows them the shared memory they need.
cudaError_t loadCopyAndSignal();

} // namespace braid::cuda
