//===- runtime/progress.h - says how far a long piece of work is ------------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace braid {

/// One step of the work, and how far it is.
struct WorkProgress {
  std::string step; ///< "making Plans"
  std::string unit; ///< the counted thing: "ranks"
  size_t done = 0, total = 0;
  double bytes = 0; ///< estimated memory of the whole work; 0: not known yet
};

/// Hears of it, on the thread that works, often: it decides what is worth saying.
using ProgressFn = std::function<void(const WorkProgress &)>;

/// The listener, told as well what the whole work takes.
inline ProgressFn withMemory(const ProgressFn &listener, double bytes) {
  if (!listener)
    return {};
  return [listener, bytes](WorkProgress now) {
    now.bytes = bytes;
    listener(now);
  };
}

/// Tells the listener, if there is one, when a step begins, and then at least a thousand times, or
/// each time, while it goes on. The listener outlives it.
class ProgressStep {
public:
  ProgressStep(const ProgressFn &listener, std::string step, std::string unit, size_t total)
      : listener_(listener), now_{std::move(step), std::move(unit), 0, total, 0} {
    tell();
  }

  void advance() {
    if (++now_.done >= next_)
      tell();
  }

private:
  void tell() {
    constexpr size_t kMost = 1024; ///< units that go by without a word
    next_ = listener_ ? now_.done + std::clamp<size_t>(now_.total / 1000, 1, kMost)
                      : std::numeric_limits<size_t>::max();
    if (listener_)
      listener_(now_);
  }

  const ProgressFn &listener_;
  WorkProgress now_;
  size_t next_ = 0;
};

} // namespace braid
