//===- api/launch/stop_rule.h - finds ranks that stay stopped for too long --------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

/// Detects ranks that stay stopped. Peers notice a stopped rank when they wait for it, which may be
/// late, because a process takes seconds to initialise its GPU. The process that started the ranks
/// can notice it at once.
class StopRule {
public:
  using Time = std::chrono::steady_clock::time_point;

  /// `period` is the approximate time between calls of look().
  StopRule(int64_t ranks, std::chrono::milliseconds timeout, std::chrono::milliseconds period);

  /// Returns the rank that has been stopped for the longest time, if that is the timeout or more.
  /// If this process was stopped as well, as Ctrl-Z in a terminal does, the time restarts for ranks
  /// that are still stopped. The process is not told that it was stopped, so it infers that from a
  /// late call: one after more than a quarter of the timeout and a few periods, since a loaded
  /// machine delays calls, too.
  std::optional<int64_t> look(Time now, llvm::function_ref<bool(int64_t rank)> isStopped);

private:
  const std::chrono::milliseconds timeout_, tooLate_;
  std::optional<Time> lastLook_;
  std::vector<std::optional<Time>> since_; ///< indexed by rank
};

} // namespace braid
