//===- api/pairs/measure_pairs.h - measures every pair of a machine's devices -----------------===//
//
// Two devices at a time are measured by a job of two processes, over all paths and in both
// directions; in the end all pairs at once are, by a job of all. Links that are slow only then are
// tried two at a time. A process that dies, or a transfer
// that never ends, ends its job, and becomes the outcome of the path on which it happened. What was
// measured before stays, and a new job goes on with the rest. Nothing is left of a job.
//
// The first hang of a pair costs the time limit. What is left of that pair is given a few times
// what its steps took so far.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "api/status.h"

#include <chrono>
#include <functional>

namespace braid {

/// What is about to be measured.
struct MeasureStep {
  size_t number = 1, count = 1;          ///< this one, and all; the last one is that of all pairs
  int64_t source = -1, destination = -1; ///< devices; -1: all
};

struct MeasureOptions {
  std::string backend;                      ///< its ranks can be processes
  std::vector<int64_t> devices;             ///< numbers, each once, at least two
  std::vector<Path> paths;                  ///< each once
  std::vector<int64_t> sizes;               ///< bytes, ascending; multiples of 4
  std::chrono::milliseconds timeout{20000}; ///< without a step forward
  /// For a pair on one path, both directions: sizes that would take longer are left out.
  double secondsOfPath = 3;
  /// The arguments of a process that measures, from argv[0] on; the number of the descriptor for
  /// what it says comes behind them. It calls measureAsRank().
  std::vector<std::string> rankCommand;
  std::function<void(const MeasureStep &step)> progress = {};
};

struct MeasuredPairs {
  PairReport report;
  int signal = 0; ///< the SIGINT, SIGTERM or SIGHUP that ended it early, or 0
};

/// Blocks until all is measured. The main thread calls it: see launch(). A failure means that
/// nothing can be measured at all, as where there is no such device.
Result<MeasuredPairs> measurePairs(const MeasureOptions &options);

/// The worst that happened, as an exit code: WrongResult before PeerFailed before TimedOut.
StatusCode outcomeOf(const PairReport &report);

} // namespace braid
