//===- tools/step_progress.h - says on stderr how far long work is --------------------------===//
#pragma once

#include "runtime/progress.h"

#include <chrono>

namespace braid::tools {

/// A ProgressFn: silent for half a second, then a line on stderr, and again every two seconds.
/// Copies share nothing, so hand it on with std::ref.
class StepProgress {
public:
  /// "check": lines begin with it.
  explicit StepProgress(std::string command) : command_(std::move(command)) {}
  void operator()(const WorkProgress &now);

private:
  using Clock = std::chrono::steady_clock;
  void say(const WorkProgress &now, double secondsOfStep);

  const std::string command_;
  std::string step_;
  Clock::time_point stepStart_, next_ = Clock::now() + std::chrono::milliseconds(500);
};

} // namespace braid::tools
