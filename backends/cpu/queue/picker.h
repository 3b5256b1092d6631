//===- backends/cpu/queue/picker.h - chooses the next command to run --------------------------===//
//
// A scheduler runs the commands of all ranks one at a time. Whenever several can run, a Picker
// chooses one. A Picker is a function, so new strategies need no other change.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <functional>

namespace braid {

struct QueuedCommand;

/// The head of a queue, which can run now.
struct RunnableHead {
  int64_t rank;
  uint32_t queue;
  const QueuedCommand *command; ///< valid until the next choice
};

/// Chooses one of the candidates and returns its index. There is at least one, and they are ordered
/// by rank and queue. Called by one thread at a time.
using Picker = std::function<size_t(llvm::ArrayRef<RunnableHead>)>;

/// Returns a picker that draws choices from `seed`, in phases of 1 to 256 choices: in a phase,
/// either each candidate has an equal chance, or the queue with the highest priority, drawn for the
/// phase, always wins. The same seed gives the same choices on every platform.
Picker seededPicker(uint64_t seed);

} // namespace braid
