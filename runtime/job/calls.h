//===- runtime/job/calls.h - whether ranks make the same calls --------------------------------===//
//
// Each rank notes in its slot of the job memory what it does next, out of what all ranks do alike.
// The n-th call is the same on all ranks, or they disagree: that follows from what is written, and
// needs no time limit.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/job_view.h"

#include <string>

namespace braid {

/// Writes down the next call of a rank. For its host thread.
void noteCall(RankSlot &slot, JobCall call, uint32_t program);

/// The calls that ranks of this host have noted in place of one, if they disagree and `rank` is to
/// tell: of a program that is being prepared only that rank knows the name. Empty: there is nothing
/// to tell.
std::string describeDisagreement(const JobMemory &memory, const KnownPlans &plans, int64_t rank);

} // namespace braid
