//===- api/launch/stop_rule.h - says when a rank has stayed stopped for too long --------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

/// Ranks see that a peer does nothing when they wait for it, which may be late: a process takes
/// seconds to start its GPU. The process that started them sees it from the moment on.
class StopRule {
public:
  using Time = std::chrono::steady_clock::time_point;

  /// `period`: about how often it will be asked.
  StopRule(int64_t ranks, std::chrono::milliseconds timeout, std::chrono::milliseconds period);

  /// The rank that has been stopped for the longest time, if that is the timeout or more. If this
  /// process was stopped itself, as all of a job are from a terminal (Ctrl-Z), the time starts anew
  /// for those that are still stopped. It learns nothing of that, but sees that it is asked late:
  /// after a quarter of the timeout, and a few periods, for a loaded machine is late, too.
  std::optional<int64_t> look(Time now, llvm::function_ref<bool(int64_t rank)> isStopped);

private:
  const std::chrono::milliseconds timeout_, tooLate_;
  std::optional<Time> lastLook_;
  std::vector<std::optional<Time>> since_; ///< by rank
};

} // namespace braid
