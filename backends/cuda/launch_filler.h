//===- backends/cuda/launch_filler.h - what of a command batch one launch does ----------------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid::cuda {

Sum sumOf(const SumArgs &args);

/// Fills a launch with the first of a batch's steps: each kind has its part of it, in this order.
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

  /// Of a launch that has nothing yet. `numberOf` is asked once of each flag that is taken, in
  /// their order; it outlives this.
  LaunchFiller(CopyAndSignal &launch, const May &may, NumberOf numberOf)
      : launch_(launch), may_(may), numberOf_(numberOf) {}

  /// False: the step has to go to another launch, and so have those behind it.
  bool take(const BatchedCommand &step);
  /// Nothing can follow.
  bool isFull() const { return part_ == Full; }

private:
  enum Part { ReadySignals, Awaits, Moves, Arrivals, Giving, LastCopies, Full };
  static constexpr uint32_t kMost = CopyAndSignal::kMost;

  bool takeSum(const SumArgs &args);
  bool takeAwait(const BatchedCommand &step);
  bool takeSignal(const BatchedCommand &step);
  bool takeCopy(const BatchedCommand &step);
  bool takeCopyBehindSum(const BatchedCommand &step, const CopyAndSignalCopy &copy);
  bool appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count, const BatchedCommand &step);

  CopyAndSignal &launch_;
  const May may_;
  const NumberOf numberOf_;
  Part part_ = ReadySignals;
};

} // namespace braid::cuda
