//===- api/launch/stop_rule.cpp ---------------------------------------------------------------===//

#include "api/launch/stop_rule.h"

#include <algorithm>

namespace braid {

AbsenceRule::AbsenceRule(std::chrono::milliseconds timeout, std::chrono::milliseconds period)
    : tooLate_(std::max(4 * period, timeout / 4)) {}

AbsenceRule::Time::duration AbsenceRule::look(Time now) {
  const Time::duration since = lastLook_ ? now - *lastLook_ : Time::duration(0);
  lastLook_ = now;
  return since > tooLate_ ? since : Time::duration(0);
}

StopRule::StopRule(int64_t ranks, std::chrono::milliseconds timeout,
                   std::chrono::milliseconds period)
    : timeout_(timeout), since_(static_cast<size_t>(ranks)), absence_(timeout, period) {}

std::optional<int64_t> StopRule::look(Time now, llvm::function_ref<bool(int64_t rank)> isStopped) {
  const bool wasAway = absence_.look(now) != Time::duration(0);
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
