//===- runtime/check/walk.cpp - goes through the events of all ranks --------------------------===//

#include "runtime/check/walk.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid::checker {
namespace {

using VisitFn = llvm::function_ref<bool(EventId id, uint32_t block)>;

/// Events that a block can do in one go once other blocks are where it needs them.
struct Stretch {
  /// A block, as seen from this one, and how many stretches it has to have done.
  struct Need {
    uint32_t block, done;
  };
  std::vector<EventId> events;
  std::vector<Need> needs; ///< without those of earlier stretches
};

/// An event is in the stretch of what stands before it on its stream, or of its cause; or in the
/// next one, if the cause is another block's.
std::vector<Stretch> cutIntoStretches(const History &history, llvm::ArrayRef<EventId> order) {
  std::vector<Stretch> stretches;
  std::vector<size_t> ofThread(history.threads()), ofEvent(history.events().size());
  for (EventId id : order) {
    const Event &event = history.event(id);
    size_t &stretch = ofThread[event.thread];
    if (event.cause != kNone)
      stretch = std::max(stretch, ofEvent[event.cause] + (history.blockOfCause(event) != 0));
    ofEvent[id] = stretch;
    stretches.resize(std::max(stretches.size(), stretch + 1));
    stretches[stretch].events.push_back(id);
  }
  std::vector<uint32_t> needed(history.blocks());
  for (Stretch &stretch : stretches)
    for (EventId id : stretch.events) {
      const uint32_t block = history.blockOfCause(history.event(id));
      if (block == 0)
        continue;
      const auto done = static_cast<uint32_t>(ofEvent[history.event(id).cause]) + 1;
      if (needed[block] < done)
        stretch.needs.push_back({block, needed[block] = done});
    }
  return stretches;
}

class Walk {
public:
  Walk(const History &history, std::vector<Stretch> stretches)
      : history_(history), stretches_(std::move(stretches)), done_(history.blocks()),
        sleepers_(history.blocks()) {}

  bool run(VisitFn visit) {
    std::vector<uint32_t> ready;
    for (uint32_t block = 0; block < done_.size(); ++block)
      ready.push_back(block);
    while (!ready.empty()) {
      const uint32_t block = ready.back();
      ready.pop_back();
      for (; done_[block] < stretches_.size() && !mustSleep(block); ++done_[block])
        if (!llvm::all_of(stretches_[done_[block]].events,
                          [&](EventId id) { return visit(id, block); }))
          return false;
      wake(block, ready);
    }
    return llvm::all_of(done_, [&](uint32_t done) { return done == stretches_.size(); });
  }

private:
  struct Sleeper {
    uint32_t block, untilDone;
  };

  /// Until another block has done what the next stretch needs.
  bool mustSleep(uint32_t block) {
    for (const Stretch::Need &need : stretches_[done_[block]].needs) {
      const uint32_t other = history_.shiftedBlock(block, need.block);
      if (done_[other] >= need.done)
        continue;
      sleepers_[other].push_back({block, need.done});
      return true;
    }
    return false;
  }

  void wake(uint32_t block, std::vector<uint32_t> &ready) {
    auto sleeps = [&](const Sleeper &sleeper) { return sleeper.untilDone > done_[block]; };
    auto woken = std::stable_partition(sleepers_[block].begin(), sleepers_[block].end(), sleeps);
    for (auto sleeper = woken; sleeper != sleepers_[block].end(); ++sleeper)
      ready.push_back(sleeper->block);
    sleepers_[block].erase(woken, sleepers_[block].end());
  }

  const History &history_;
  const std::vector<Stretch> stretches_;
  std::vector<uint32_t> done_;                 ///< stretches, by block
  std::vector<std::vector<Sleeper>> sleepers_; ///< by the block that they wait for
};

} // namespace

bool forAllInOrder(const History &history, llvm::ArrayRef<EventId> order, VisitFn visit) {
  if (history.blocks() == 1)
    return llvm::all_of(order, [&](EventId id) { return visit(id, 0); });
  return Walk(history, cutIntoStretches(history, order)).run(visit);
}

} // namespace braid::checker
