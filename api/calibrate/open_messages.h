//===- api/calibrate/open_messages.h - whether every rank can send messages -------------------===//
#pragma once

#include "api/timing/plan_timer.h"

namespace braid {

/// Whether every rank can, who then has opened what that takes. Where one cannot, although it has
/// what messages are sent by, rank 0's `warn` hears why. Collective, the same on all ranks.
Result<bool> openMessages(PlanTimer &timer, const std::function<void(const std::string &)> &warn);

} // namespace braid
