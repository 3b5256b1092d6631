//===- api/launch/stop_rule.h - says when a rank has stayed stopped for too long --------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

/// Who is stopped itself (SIGSTOP or the like) learns nothing of that, but sees the time that it
/// has lost.
class AbsenceRule {
public:
  using Time = std::chrono::steady_clock::time_point;

  /// `period`: about how often it will be asked. What waits for `timeout` tells when an absence
  /// matters: a quarter of that, and a few periods, for a loaded machine is late, too.
  AbsenceRule(std::chrono::milliseconds timeout, std::chrono::milliseconds period);

  /// How long this process has been away since the last question; 0: it has not.
  Time::duration look(Time now);

private:
  const std::chrono::milliseconds tooLate_;
  std::optional<Time> lastLook_;
};

/// Ranks see that a peer does nothing when they wait for it, which may be late: a process takes
/// seconds to start its GPU. Who started them sees it from the moment on.
class StopRule {
public:
  using Time = std::chrono::steady_clock::time_point;

  /// `period`: about how often it will be asked.
  StopRule(int64_t ranks, std::chrono::milliseconds timeout, std::chrono::milliseconds period);

  /// The rank that has been stopped for the longest time, if that is the timeout or more. If this
  /// process was stopped itself, as all of a job are from a terminal (Ctrl-Z), the time starts anew
  /// for those that are still stopped.
  std::optional<int64_t> look(Time now, llvm::function_ref<bool(int64_t rank)> isStopped);

private:
  const std::chrono::milliseconds timeout_;
  std::vector<std::optional<Time>> since_; ///< by rank
  AbsenceRule absence_;
};

} // namespace braid
