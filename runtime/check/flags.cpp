//===- runtime/check/flags.cpp - no signal comes before the last one was taken ----------------===//

#include "runtime/check/flags.h"

namespace braid::checker {

std::optional<Violation> findEarlySignal(const History &history, const HappensBefore &before,
                                         EventId id) {
  const Event &event = history.event(id);
  if (event.kind != EventKind::Command || event.run == 0 ||
      history.command(event).kind != CommandKind::Signal)
    return std::nullopt;
  uint32_t endpoint = history.command(event).endpoint;
  if (history.plan(event).endpoints[endpoint].isOfMessages) // where no flag stands for a signal
    return std::nullopt;
  const int64_t peer = history.plan(event).endpoints[endpoint].peer;
  EventId await = history.awaitOf(static_cast<size_t>(peer), history.partner(event.rank, endpoint),
                                  event.run - 1);
  if (await == kNone || before.isBeforePresent(await, history.blockOf(peer)))
    return std::nullopt;
  return Violation{CheckRule::Transfers,
                   "a transfer is signalled again before it was awaited",
                   {history.describe(await), history.describe(id)},
                   {"nothing orders the signal of a run after the await of the run before"}};
}

} // namespace braid::checker
