//===- runtime/checker/words.cpp - no signal comes before the last one was taken --------------===//

#include "runtime/checker/words.h"

#include <map>
#include <tuple>

namespace braid::checker {
namespace {

class EarlySignalFinder {
public:
  explicit EarlySignalFinder(const History &history) : history_(history), before_(history) {
    for (EventId id = 0; id < history.events().size(); ++id) {
      const Event &event = history.event(id);
      if (event.kind == EventKind::Command && history.command(event).kind == CommandKind::Await)
        awaits_[{event.rank, history.command(event).endpoint, event.run}] = id;
    }
    isPassed_.assign(history.events().size(), false);
  }

  std::optional<Violation> visit(EventId id) {
    before_.advance(id);
    isPassed_[id] = true;
    const Event &event = history_.event(id);
    if (event.kind != EventKind::Command || event.run == 0 ||
        history_.command(event).kind != CommandKind::Signal)
      return std::nullopt;
    const Command &signal = history_.command(event);
    const Endpoint &mine = history_.plan(event).endpoints[signal.endpoint];
    auto await = awaits_.find({static_cast<uint32_t>(mine.peer),
                               history_.partner(event.rank, signal.endpoint), event.run - 1});
    if (await == awaits_.end() ||
        (isPassed_[await->second] && before_.isBeforePresent(await->second)))
      return std::nullopt;
    return Violation{CheckRule::Transfers,
                     "a transfer is signalled again before it was awaited",
                     {history_.describe(await->second), history_.describe(id)},
                     {"nothing orders the signal of a run after the await of the run before"}};
  }

private:
  const History &history_;
  HappensBefore before_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, EventId> awaits_; ///< rank, endpoint, run
  std::vector<bool> isPassed_;
};

} // namespace

std::optional<Violation> findEarlySignal(const History &history, llvm::ArrayRef<EventId> order) {
  EarlySignalFinder finder(history);
  for (EventId id : order)
    if (std::optional<Violation> violation = finder.visit(id))
      return violation;
  return std::nullopt;
}

} // namespace braid::checker
