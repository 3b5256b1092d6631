//===- backends/cpu/queue/picker.h - chooses the next command to run --------------------------===//
//
// A scheduler runs the commands of all ranks one at a time. Whenever several commands can run, a
// Picker chooses one. A Picker is a function object, so a new strategy needs no other changes.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <functional>

namespace braid {

struct QueuedCommand;

/// A queue whose first command can run now.
struct RunnableHead {
  int64_t rank;
  uint32_t queue;
  const QueuedCommand *command; ///< valid until the next choice
};

/// Chooses one of the candidates and returns its index. There is at least one candidate, and the
/// candidates are sorted by rank and queue. Called by one thread at a time.
using Picker = std::function<size_t(llvm::ArrayRef<RunnableHead>)>;

/// Returns a picker that derives its choices from `seed`, in phases of 1 to 256 choices. In a
/// phase, either all candidates are equally likely, or each queue has a random priority and the
/// highest priority always wins. The same seed yields the same choices on every platform.
Picker seededPicker(uint64_t seed);

} // namespace braid
