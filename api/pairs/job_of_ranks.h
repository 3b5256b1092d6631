//===- api/pairs/job_of_ranks.h - one job of processes that measure ---------------------------===//
#pragma once

#include "api/pairs/measurement.h"
#include "api/pairs/measuring_job.h"

#include <chrono>
#include <functional>

namespace braid {

struct JobOfRanks {
  MeasuringJob job;                     ///< but for its time limit
  std::vector<int64_t> devices;         ///< the backend's numbers, by rank
  std::chrono::milliseconds patience;   ///< for each step
  std::vector<std::string> rankCommand; ///< see MeasureOptions
  std::function<void(const Measurement &line)> take;
};

struct JobEnd {
  /// TimedOut: there was no step forward. Else as of launch(). Messages name devices.
  Status status;
  int signal = 0; ///< that ended it from outside, or 0
  /// This process was stopped meanwhile, as from a terminal (Ctrl-Z): its processes have waited for
  /// it, and times are of more than the transfers.
  bool wasSuspended = false;
  std::optional<Measurement> last; ///< what was begun last
  std::chrono::milliseconds longestStep{0};
};

/// Blocks until all processes are gone. By the main thread.
JobEnd runJob(const JobOfRanks &ranks);

} // namespace braid
