//===- runtime/job/calls.h - detects ranks that make different calls --------------------------===//
//
// Each rank records its next collective call in its slot of the job memory. The n-th call must be
// the same on all ranks; comparing the records detects a mismatch without waiting for a timeout.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/job_view.h"

#include <string>

namespace braid {

/// Records a rank's next call in its slot. Called by the rank's host thread.
void noteCall(RankSlot &slot, JobCall call, uint32_t program);

/// Describes the calls of this host's ranks if they differ and `rank` must report the mismatch;
/// otherwise returns an empty string. A rank that is preparing a program or choosing a schedule
/// must report the mismatch, because only that rank has the program's name.
std::string describeDisagreement(const JobMemory &memory, const KnownPlans &plans, int64_t rank);

} // namespace braid
