//===- backends/cuda/launch_filler.h - what of a command batch one launch does ----------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid::cuda {

/// The parts of a kernel, in order; each may be left out.
enum class LaunchPart : uint8_t {
  ReadySignals, ///< before anything else
  Awaits,
  Moves,    ///< copies and their signals, and a sum that is added along the copies
  Arrivals, ///< awaits
  Giving,   ///< the sum to peers, and the signals of that
  LastCopies,
  Full, ///< nothing follows
};

/// The role of a command in a kernel.
enum class LaunchStep : uint8_t {
  Signal,
  Await,
  Copy,
  SumAlong,   ///< a sum of the parts that the copies bring
  SumAtEnd,   ///< a small one, of what has come
  Gift,       ///< a copy of the sum to a peer
  CopyBehind, ///< a copy that waits until the sum has been given
};

Sum sumOf(const SumArgs &args);

/// Fills a launch with the first of a batch's steps, which are in the order of LaunchPart.
class LaunchFiller {
public:
  using NumberOf = llvm::function_ref<uint32_t(const BatchedCommand &)>;
  struct May {
    bool haveCopies;  ///< several at once
    bool waitAndWork; ///< the blocks that copy or add may wait for peers
    bool add;         ///< kernels copy here, so they may add what they copy
    bool give;        ///< the sum, in a second shot: GPUs add to flags of their peers
    CopyAndSignalBlocks blocks;
  };

  /// Fills an empty launch. `numberOf` is called once for each flag that is added, in their order;
  /// it outlives this.
  LaunchFiller(CopyAndSignal &launch, const May &may, NumberOf numberOf)
      : launch_(launch), may_(may), numberOf_(numberOf) {}

  /// False: the step has to go to another launch, and so have those behind it.
  bool take(const BatchedCommand &step);
  /// Nothing can follow.
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
