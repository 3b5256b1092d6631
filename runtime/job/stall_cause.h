//===- runtime/job/stall_cause.h - when a job stands still, and why ---------------------------===//
#pragma once

#include "runtime/job/job_view.h"

namespace braid {

/// Says when everything has stood still for too long. All times in ns, of one clock.
class StallRule {
public:
  StallRule(std::chrono::milliseconds timeout, std::chrono::milliseconds period);
  /// To be asked once a period. `progress` is that of all ranks; the rank's host thread has been
  /// `isBlocked` since `blockedSince`. If the last question is longer ago than a few periods, this
  /// process was stopped itself and has missed what the others did meanwhile: the time starts anew.
  /// Progress of other hosts is seen after `underWay` at the latest.
  bool isStalled(uint64_t now, uint64_t progress, bool isBlocked, uint64_t blockedSince,
                 uint64_t underWay = 0);

private:
  const uint64_t timeout_, tooLate_;
  uint64_t lastAsked_ = 0, lastMove_ = 0, lastProgress_ = 0;
};

/// The cause of a job in which nothing has moved for `timeout`. It blames a rank without a
/// heartbeat; else one that is in a command that waits for nobody; else one that does not do what
/// another one waits for, as one whose host thread is in its own code; else no rank, and the waits
/// are listed. TimedOut; the first line names the rank, then there is a line for each rank.
JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::chrono::milliseconds timeout);
/// The same of a job that is known to stand still for good, in which every rank is alive.
JobCause deadlockCause(const JobMemory &memory, const KnownPlans &plans);

/// The same if `rank` is known to have been stopped for that long, by SIGSTOP or the like, whether
/// anybody waits for it by now or not.
JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   std::chrono::milliseconds timeout);

} // namespace braid
