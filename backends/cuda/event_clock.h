//===- backends/cuda/event_clock.h - when events of a GPU were, on the host's clock -----------===//
//
// A GPU tells how long one event was after another, in milliseconds as a float, and nothing of the
// host's clock. Names nothing of CUDA's.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace braid {

/// When an event passed: `ns` on the host's clock, right to within `errorNs`.
struct EventMoment {
  size_t event = 0; ///< 0 or 1
  int64_t ns = 0;
  int64_t errorNs = std::numeric_limits<int64_t>::max();
};

/// Records one of two events again and again, spins until it has passed, and returns the one whose
/// moment is known best: it lies between a look at the host's clock before the record and one after
/// the event was seen to have passed. No attempt touches the event that is best so far.
inline EventMoment closestMoment(int attempts, llvm::function_ref<void(size_t event)> record,
                                 llvm::function_ref<bool(size_t event)> hasPassed,
                                 llvm::function_ref<int64_t()> nowNs) {
  EventMoment best;
  for (size_t event = 0; attempts > 0; --attempts) {
    const int64_t before = nowNs();
    record(event);
    while (!hasPassed(event)) {
    }
    const int64_t errorNs = (nowNs() - before + 1) / 2;
    if (errorNs >= best.errorNs)
      continue;
    best = {event, before + errorNs, errorNs};
    event = 1 - event;
  }
  return best;
}

/// Turns differences between events into times of the host's clock. A float has 24 bits, which are
/// microseconds after 10 s: so differences are short ones, from events on the way. A pause between
/// two events adds its own rounding, 0.03 us for each second.
template <class Event> class EventClock {
public:
  /// Milliseconds from one event to another.
  using Elapsed = llvm::function_ref<float(Event from, Event to)>;

  /// `reference` was at `ns`.
  EventClock(Event reference, int64_t ns, Elapsed elapsed)
      : reference_(reference), ns_(ns), elapsed_(elapsed) {}

  /// Ask in about the order of time.
  int64_t nsOf(Event event) {
    constexpr double kLongMs = 8; // twice as long is exact, in nanoseconds
    const double ms = elapsed_(reference_, event);
    const int64_t ns = ns_ + std::llround(ms * 1e6);
    if (ms > kLongMs) {
      reference_ = event;
      ns_ = ns;
    }
    return ns;
  }

private:
  Event reference_;
  int64_t ns_;
  const Elapsed elapsed_;
};

} // namespace braid
