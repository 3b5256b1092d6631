//===- runtime/job/stall_cause.h - the cause of a job that stands still -----------------------===//
#pragma once

#include "runtime/job/job_snapshot.h"

namespace braid {

/// The cause of a job in which nothing has moved for `timeout`. It blames a rank without a
/// heartbeat; else one that is in a command that waits for nobody; else the one that a chain of
/// waits leads to, as one whose host thread is in its own code; else no rank, and the waits are
/// listed. TimedOut; the first line names the rank, then there is a line for each rank.
JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::chrono::milliseconds timeout);

/// The same if `rank` is known to have been stopped for that long, by SIGSTOP or the like, whether
/// anybody waits for it by now or not.
JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   std::chrono::milliseconds timeout);

} // namespace braid
