//===- runtime/job/stall_cause.h - detects a stalled job and finds the cause ------------------===//
#pragma once

#include "runtime/job/job_view.h"

#include <algorithm>
#include <chrono>

namespace braid {

/// The period of a rank's watchdog: short enough to enforce the timeout, long enough to be cheap.
inline std::chrono::milliseconds watchPeriod(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  return std::clamp(timeout / 16, milliseconds(5), milliseconds(50));
}

/// Decides when a job has stalled. All times are in nanoseconds on the same clock.
class StallRule {
public:
  StallRule(std::chrono::milliseconds timeout, std::chrono::milliseconds period);
  /// Called once per period. `progress` is the total progress of all ranks. `isBlocked` is true if
  /// the rank's host thread has been blocked since `blockedSince`. If several periods have passed
  /// since the last call, this process was itself suspended and may have missed progress, so the
  /// timeout restarts. `underWay` is the delay before progress on other hosts becomes visible.
  bool isStalled(uint64_t now, uint64_t progress, bool isBlocked, uint64_t blockedSince,
                 uint64_t underWay = 0);

private:
  const uint64_t timeout_, tooLate_;
  uint64_t lastAsked_ = 0, lastMove_ = 0, lastProgress_ = 0;
};

/// Returns the cause of a stall in which no rank has made progress for `timeout`. Blames, in order
/// of preference, a rank without a recent heartbeat; a rank in a command that does not wait for
/// another rank; or a rank that waits for no other rank, for example because its host thread is
/// outside Braid. If there is none, blames no rank and lists the waits. The status is TimedOut; the
/// first line of its message names the blamed rank, and one line per rank follows. If `timeout` is
/// nullopt, describes a deadlock in which all ranks are alive.
JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::optional<std::chrono::milliseconds> timeout);

} // namespace braid
