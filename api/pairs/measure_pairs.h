//===- api/pairs/measure_pairs.h - measures every pair of a machine's devices -----------------===//
//
// Two processes measure two devices, over all paths and in both directions. A process that dies, or
// a transfer that does not end, ends both processes and becomes the verdict on what was being
// measured; two new processes go on with the rest. The first hang of a pair costs the time limit;
// after it the pair has a few times what its longest transfer took.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_meter.h"

#include <chrono>
#include <functional>

namespace braid {

struct MeasureOptions {
  std::string backend;                      ///< its ranks can be processes
  std::vector<int64_t> devices;             ///< the backend's numbers, each once, at least two
  std::vector<Path> paths;                  ///< each once
  std::chrono::milliseconds timeout{20000}; ///< from one record to the next
  /// The command line, from argv[0] on, of a process that calls measureAsRank() with these.
  std::function<std::vector<std::string>(const std::vector<Step> &steps, int results)> rankCommand;
  /// Called before each pair of devices, with its number from 1 on.
  std::function<void(int64_t one, int64_t other, size_t number)> progress;
};

struct MeasuredPairs {
  PairReport report; ///< not judged: nothing is Slow
  int signal = 0;    ///< the SIGINT, SIGTERM or SIGHUP that ended it early, or 0
};

/// Blocks until all is measured. Called by the main thread, see launch(). BadInput if the processes
/// refuse to start.
Result<MeasuredPairs> measurePairs(const MeasureOptions &options);

} // namespace braid
