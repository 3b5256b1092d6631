//===- runtime/job/calls.h - detects ranks that make different calls --------------------------===//
//
// Each rank records its next collective call in its slot of the job memory. The n-th call must be
// the same on all ranks. A disagreement is found by comparing the records, without a timeout.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/job_view.h"

#include <string>

namespace braid {

/// Records the next call of a rank in its slot. Called by the rank's host thread.
void noteCall(RankSlot &slot, JobCall call, uint32_t program);

/// Describes the calls of this host's ranks if they disagree and `rank` is the one to report it:
/// only that rank knows the name of a program that it is preparing. Returns an empty string
/// otherwise.
std::string describeDisagreement(const JobMemory &memory, const KnownPlans &plans, int64_t rank);

} // namespace braid
