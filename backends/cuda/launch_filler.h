//===- backends/cuda/launch_filler.h - combines commands of a batch into one launch -----------===//
#pragma once

#include "backends/cuda/copy_and_signal.h"
#include "runtime/execute/peer_memory.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace braid::cuda {

Sum sumOf(const SumArgs &args);

/// Fills a launch with as many leading steps of a batch as one kernel can execute in order.
class LaunchFiller {
public:
  using NumberOf = llvm::function_ref<uint32_t(const BatchedCommand &)>;
  struct May {
    bool haveCopies;  ///< a launch may contain several copies, because the copies do not overlap
    bool waitAndWork; ///< blocks that copy or add may wait for peers
    bool give;        ///< a second shot may send the sum; true if GPUs can add to peers' flags
  };

  /// Fills `launch`, which must be empty. Calls `numberOf`, which must outlive this object, once
  /// per added flag, in order.
  LaunchFiller(CopyAndSignal &launch, const May &may, NumberOf numberOf)
      : launch_(launch), may_(may), numberOf_(numberOf) {}

  /// Adds a step. Returns false if this step, and therefore all later steps, need another launch.
  bool take(const BatchedCommand &step);

private:
  static constexpr uint32_t kMost = CopyAndSignal::kMost;
  /// The kernel's phases, in order. Each phase is optional.
  enum class Phase : uint8_t {
    ReadySignals, ///< signals before all other steps
    Awaits,
    Moves,    ///< copies and their signals, and a sum of the copied data
    Arrivals, ///< awaits of peers' copies
    Giving,   ///< copies of the sum to peers, and their signals
    LastCopies,
  };

  bool enter(Phase next);
  bool takeSignal(const BatchedCommand &step);
  bool takeAwait(const BatchedCommand &step);
  bool takeCopy(const BatchedCommand &step);
  bool takeSum(const Sum &sum);
  bool takeGift(void *place);
  bool takeLastCopy(const CopyAndSignalCopy &copy);
  bool appendFlag(CopyAndSignalFlag (&list)[kMost], uint32_t &count, const BatchedCommand &step);

  CopyAndSignal &launch_;
  const May may_;
  const NumberOf numberOf_;
  Phase phase_ = Phase::ReadySignals;
};

} // namespace braid::cuda
