//===- runtime/progress.h - reports the progress of long operations ---------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace braid {

/// The current step of an operation, and its progress.
struct WorkProgress {
  std::string step; ///< for example "making Plans"
  std::string unit; ///< the unit of `done` and `total`, for example "ranks"
  size_t done = 0, total = 0;
};

/// Called frequently on the thread that does the work; the callee decides what to report.
using ProgressFn = std::function<void(const WorkProgress &)>;

/// Calls the listener, if any, when a step starts and then after every few units of work, because a
/// single unit may take tens of milliseconds. The listener must outlive this object.
class ProgressStep {
public:
  ProgressStep(const ProgressFn &listener, std::string step, std::string unit, size_t total)
      : listener_(listener), now_{std::move(step), std::move(unit), 0, total} {
    tell();
  }

  void advance() {
    if (++now_.done >= next_)
      tell();
  }

private:
  void tell() {
    constexpr size_t kMost = 16; ///< the maximum number of units between two calls
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
