//===- runtime/job/job_report.h - what the ranks of a job are doing, in words -----------------===//
//
// Read from the job memory, so also for ranks that are stopped or dead. Plans name the commands;
// where there is none, numbers do.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/job_snapshot.h"

namespace braid {

/// One line about what holds `rank` up or what it is doing, and how far it is: `rank 2 is in
/// "matmul %out, %block, %B" (trip 3) at ag.braid:14:9, run 2, for 0.4 s; last completed: "%r = p2p
/// recv ..." (trip 3) at ag.braid:12:5, run 2`.
std::string describeRank(const JobMemory &memory, const KnownPlans &plans, int64_t rank);

/// Why a job in which nothing has moved for `timeout` stands still, and who is to blame: a rank
/// without a heartbeat; else one that is in a command that waits for nobody; else one whose host
/// thread is in its own code; else nobody, and the waits are listed. TimedOut; the first line names
/// the rank, then a line for each rank.
JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::chrono::milliseconds timeout);

/// The same if `rank` is known to have been stopped for that long, by SIGSTOP or the like, whether
/// anybody waits for it by now or not.
JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   std::chrono::milliseconds timeout);

} // namespace braid
