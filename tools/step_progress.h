//===- tools/step_progress.h - reports the progress of long operations on stderr --------------===//
#pragma once

#include "runtime/progress.h"

#include <chrono>

namespace braid::tools {

/// A ProgressFn that prints a line on stderr after `silence`, and then every two seconds. Pass it
/// by std::ref, because copies do not share state.
class StepProgress {
public:
  /// `command` is the prefix of each line, such as "check".
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
