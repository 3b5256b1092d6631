//===- backends/cuda/event_clock.h - times of a GPU's events on the host's clock --------------===//
//
// CUDA reports only the time between two events, in milliseconds as a float, and nothing about the
// host's clock. Does not depend on CUDA.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace braid {

/// The time at which an event completed: `ns` on the host's clock, to within `errorNs`.
struct EventMoment {
  size_t event = 0; ///< 0 or 1
  int64_t ns = 0;
  int64_t errorNs = std::numeric_limits<int64_t>::max();
};

/// Repeatedly records one of two events, spins until it has completed, and returns the one whose
/// time is known best: it lies between reading the host's clock before the record and reading it
/// after the completion. No attempt reuses the event that is best so far.
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

/// Converts events to times on the host's clock. A float has 24 bits, which resolve only
/// microseconds after 10 s, so differences are taken between nearby events. A pause between two
/// events adds a rounding error, 0.03 us per second.
template <class Event> class EventClock {
public:
  /// Milliseconds from one event to another.
  using Elapsed = llvm::function_ref<float(Event from, Event to)>;

  /// `reference` completed at `ns`.
  EventClock(Event reference, int64_t ns, Elapsed elapsed)
      : reference_(reference), ns_(ns), elapsed_(elapsed) {}

  /// Must be called in approximate order of time.
  int64_t nsOf(Event event) {
    constexpr double kLongMs = 8; // twice this time is exact in nanoseconds
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
