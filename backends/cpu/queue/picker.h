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

/// Chooses one of the candidates, of which there is at least one; they are ordered by rank and
/// queue. Called by one thread at a time.
using Picker = std::function<size_t(llvm::ArrayRef<RunnableHead>)>;

/// Draws choices from `seed`, in phases of 1 to 256 choices: each candidate with equal chance, or
/// always the one whose queue has the highest of the priorities drawn for the phase. The same seed
/// gives the same choices on every platform.
Picker seededPicker(uint64_t seed);

} // namespace braid
