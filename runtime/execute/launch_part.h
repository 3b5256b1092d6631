//===- runtime/execute/launch_part.h - in which order one kernel does a command batch ---------===//
//
// A device that does a batch by kernels fills one after the other, and the simulator cuts batches
// in the same way.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <optional>

namespace braid {

/// What a kernel does, in this order; each may be left out.
enum class LaunchPart : uint8_t {
  ReadySignals, ///< before anything else
  Awaits,
  Moves,    ///< copies and their signals, and a sum that is added along the copies
  Arrivals, ///< awaits
  Giving,   ///< the sum to peers, and the signals of that
  LastCopies,
  Full, ///< nothing follows
};

/// A kernel adds at its end what has so few bytes, all parts together. Streams that copy or add
/// share them: their kernels may run at the same time.
inline constexpr int64_t kMostBytesAtEnd = 4 << 20;

/// What a command is to a kernel.
enum class LaunchStep : uint8_t {
  Signal,
  Await,
  Copy,
  SumAlong,   ///< of what the copies bring
  SumAtEnd,   ///< a small one, of what has come
  Gift,       ///< a copy of the sum to a peer
  CopyBehind, ///< a copy that waits until the sum has been given
};

/// What a command of that kind is behind `part`. Of a sum, `addsAlong` says whether what the copies
/// bring can be added as it comes; of a copy behind that, `gives` says whether it is a gift.
LaunchStep stepBehind(LaunchPart part, CommandKind kind, llvm::function_ref<bool()> addsAlong,
                      llvm::function_ref<bool()> gives);
/// Where a kernel is that does `step` behind what it did in `part`; nothing: it cannot.
std::optional<LaunchPart> partAfter(LaunchPart part, LaunchStep step);

} // namespace braid
