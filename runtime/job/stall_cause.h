//===- runtime/job/stall_cause.h - detects a stalled job and finds the cause ------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include <algorithm>
#include <chrono>

namespace braid {

/// The period of a rank's watchdog: short enough to enforce the timeout, yet negligible in cost.
inline std::chrono::milliseconds watchPeriod(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  return std::clamp(timeout / 16, milliseconds(5), milliseconds(50));
}

/// Decides when a job has stalled. All times are in nanoseconds on one clock.
class StallRule {
public:
  StallRule(std::chrono::milliseconds timeout, std::chrono::milliseconds period);
  /// Called once per period. `progress` is the total progress of all ranks. `isBlocked` is true if
  /// the rank's host thread has been blocked since `blockedSince`. If several periods have passed
  /// since the last call, this process was itself suspended and may have missed progress, so the
  /// timeout restarts. `underWay` is the delay with which progress on other hosts becomes visible.
  bool isStalled(uint64_t now, uint64_t progress, bool isBlocked, uint64_t blockedSince,
                 uint64_t underWay = 0);

private:
  const uint64_t timeout_, tooLate_;
  uint64_t lastAsked_ = 0, lastMove_ = 0, lastProgress_ = 0;
};

/// Returns the cause of a stall in which nothing has progressed for `timeout`. Blames the first of
/// the following that exists: a rank without a heartbeat; a rank in a command that waits for no
/// other rank; a rank that waits for no rank, for example because its host thread is outside Braid.
/// Otherwise, blames no rank and lists the waits. The status is TimedOut; the first line of its
/// message names the blamed rank, and one line per rank follows. Without a timeout, describes a
/// deadlocked job whose ranks are all alive.
JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::optional<std::chrono::milliseconds> timeout);

} // namespace braid
