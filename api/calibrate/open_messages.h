//===- api/calibrate/open_messages.h - whether every rank can send messages -------------------===//
#pragma once

#include "api/timing/plan_timer.h"

namespace braid {

/// Of several transports messages stay one only where every rank can send them, who then has opened
/// what that takes. Where one cannot, although it has what messages are sent by, rank 0's `warn`,
/// if there is one, hears `what` follows from it, and why. Collective, the same on all ranks.
Status openMessages(PlanTimer &timer, std::vector<Transport> &transports,
                    const std::function<void(const std::string &)> &warn, const std::string &what);

} // namespace braid
