//===- tools/step_progress.h - says on stderr how far long work is --------------------------===//
#pragma once

#include "runtime/progress.h"

#include <chrono>

namespace braid::tools {

/// A ProgressFn: a line on stderr after a while, and again every two seconds. Copies share nothing,
/// so hand it on with std::ref.
class StepProgress {
public:
  /// "check": lines begin with it.
  explicit StepProgress(std::string command,
                        std::chrono::milliseconds silence = std::chrono::milliseconds(500))
      : command_(std::move(command)), next_(Clock::now() + silence) {}
  void operator()(const WorkProgress &now);

private:
  using Clock = std::chrono::steady_clock;
  void say(const WorkProgress &now, double secondsOfStep);

  const std::string command_;
  std::string step_;
  Clock::time_point stepStart_, next_;
};

} // namespace braid::tools
