//===- api/autotune/trials.h - times the candidates of a stage --------------------------------===//
#pragma once

#include "api/autotune/contest.h"
#include "api/autotune/schedule_choice.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Times candidates, which are in the order of their predictions, on the ranks of a job, and brings
/// those that were timed to the front, in the order of CandidateTimes. Collective; each rank gets
/// the same answer.
Result<CandidateTimes> runTrials(std::vector<JudgedCandidate> &candidates,
                                 const TimingLimits &limits, PlanTimer &timer);

} // namespace braid
