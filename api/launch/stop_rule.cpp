//===- api/launch/stop_rule.cpp - finds ranks that stay stopped for too long ------------------===//

#include "api/launch/stop_rule.h"

#include <algorithm>

namespace braid {

StopRule::StopRule(int64_t ranks, std::chrono::milliseconds timeout,
                   std::chrono::milliseconds period)
    : timeout_(timeout), tooLate_(std::max(4 * period, timeout / 4)),
      since_(static_cast<size_t>(ranks)) {}

std::optional<int64_t> StopRule::look(Time now, llvm::function_ref<bool(int64_t rank)> isStopped) {
  const bool wasAway = lastLook_ && now - *lastLook_ > tooLate_;
  lastLook_ = now;
  std::optional<int64_t> longest;
  for (int64_t rank = 0; rank < static_cast<int64_t>(since_.size()); ++rank) {
    std::optional<Time> &since = since_[static_cast<size_t>(rank)];
    if (!isStopped(rank))
      since.reset();
    else if (!since || wasAway)
      since = now;
    else if (now - *since >= timeout_ &&
             (!longest || *since < *since_[static_cast<size_t>(*longest)]))
      longest = rank;
  }
  return longest;
}

} // namespace braid
