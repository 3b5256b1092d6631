//===- api/autotune/trials.h - times the candidates of a stage --------------------------------===//
#pragma once

#include "api/autotune/contest.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Calls timeCandidates() on the ranks of a job. Collective; each rank gets the same result.
Status runTrials(ScheduleChoice &choice, const TimingLimits &limits, PlanTimer &timer);

} // namespace braid
