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

/// A kernel adds at its end what has so few bytes, all parts together. Streams that copy or add
/// share them: their kernels may run at the same time.
inline constexpr int64_t kMostBytesAtEnd = 4 << 20;

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

/// The role of a command that follows `part`. `addsAlong` tells whether a sum can add the copied
/// parts as they arrive; `gives` tells whether a copy that follows such a sum gives it to a peer.
LaunchStep stepBehind(LaunchPart part, CommandKind kind, llvm::function_ref<bool()> addsAlong,
                      llvm::function_ref<bool()> gives);
/// The part of a kernel that does `step` after `part`; nothing if it cannot.
std::optional<LaunchPart> partAfter(LaunchPart part, LaunchStep step);

} // namespace braid
