//===- api/calibrate/open_messages.h - whether every rank can send messages -------------------===//
#pragma once

#include "api/timing/plan_timer.h"

namespace braid {

/// Opens what it takes to send messages, if `transports` has more than messages. Erases messages
/// from it if some rank cannot send any; if that rank should be able to, rank 0's `warn`, unless it
/// is null, hears `what` follows from it, and why. Collective, the same on all ranks.
Status openMessages(PlanTimer &timer, std::vector<Transport> &transports,
                    const std::function<void(const std::string &)> &warn, const std::string &what);

} // namespace braid
