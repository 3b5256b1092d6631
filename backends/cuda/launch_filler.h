//===- backends/cuda/launch_filler.h - combines commands of a batch in one launch -------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid::cuda {

/// The phases of a copy-and-signal kernel, in order. Each is optional.
enum class LaunchPart : uint8_t {
  ReadySignals, ///< before anything else
  Awaits,
  Moves,    ///< copies and their signals, and a sum along the copies
  Arrivals, ///< awaits
  Giving,   ///< copies of the sum to peers, and their signals
  LastCopies,
  Full, ///< nothing follows
};

/// The role of a command in a kernel.
enum class LaunchStep : uint8_t {
  Signal,
  Await,
  Copy,
  SumAlong,   ///< a sum of parts that the copies transfer
  SumAtEnd,   ///< a small sum of data that has arrived
  Gift,       ///< a copy of the sum to a peer
  CopyBehind, ///< a copy after those of the sum to peers
};

Sum sumOf(const SumArgs &args);

/// Fills a launch with the first steps of a batch, as long as they follow the order of LaunchPart.
class LaunchFiller {
public:
  using NumberOf = llvm::function_ref<uint32_t(const BatchedCommand &)>;
  struct May {
    bool haveCopies;  ///< several copies in one launch
    bool waitAndWork; ///< the blocks that copy or add may wait for peers
    bool add;         ///< add the data that they copy, because kernels copy here
    bool give;        ///< send the sum in a second shot, because GPUs can add to peers' flags
    CopyAndSignalBlocks blocks;
  };

  /// Fills an empty launch. Calls `numberOf` once for each added flag, in order; it must outlive
  /// this object.
  LaunchFiller(CopyAndSignal &launch, const May &may, NumberOf numberOf)
      : launch_(launch), may_(may), numberOf_(numberOf) {}

  /// Adds a step. Returns false if it, and therefore all later steps, need another launch.
  bool take(const BatchedCommand &step);
  /// True if no step can follow.
  bool isFull() const { return part_ == LaunchPart::Full; }

private:
  static constexpr uint32_t kMost = CopyAndSignal::kMost;

  LaunchStep toStep(const BatchedCommand &step) const;
  bool mayGoOn(LaunchPart next) const;
  bool put(const BatchedCommand &step, LaunchStep kind, LaunchPart next);
  bool putSum(const Sum &sum, LaunchStep kind);
  bool putAwait(const BatchedCommand &step, LaunchPart next);
  bool putSignal(const BatchedCommand &step, LaunchPart next);
  bool putCopy(const BatchedCommand &step);
  bool putGift(const BatchedCommand &step);
  bool putCopyBehind(const BatchedCommand &step);
  bool appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count, const BatchedCommand &step);

  CopyAndSignal &launch_;
  const May may_;
  const NumberOf numberOf_;
  LaunchPart part_ = LaunchPart::ReadySignals;
};

} // namespace braid::cuda
