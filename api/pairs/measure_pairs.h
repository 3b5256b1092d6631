//===- api/pairs/measure_pairs.h - measures every pair of devices on a machine ----------------===//
//
// Two processes measure a pair of devices in steps, one for each path and direction. If a process
// dies or a transfer hangs, both processes are killed, the current step's verdict is set, and two
// new processes measure the remaining steps. A pair's first hang takes the full timeout to detect;
// later timeouts are a small multiple of the pair's longest pause between records.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_report.h"
#include "api/timing/plan_timer.h"

#include <chrono>
#include <climits>
#include <functional>

namespace braid {

struct MeasureOptions {
  std::string backend;          ///< a backend whose ranks can be processes
  std::vector<int64_t> devices; ///< the backend's device numbers; at least two, all distinct
  std::vector<Path> paths;      ///< all distinct
  std::vector<int64_t> sizes;   ///< in bytes; multiples of 4, in ascending order
  std::chrono::milliseconds timeout{20000}; ///< maximum time between records
  /// Called before each pair is measured. `number` is the number of the pair, starting at 1.
  std::function<void(int64_t one, int64_t other, size_t number)> progress;
};

/// Blocks until all pairs are measured. Must be called on the main thread; see launch(). The
/// processes run `braid p2p --measure-steps ...`, which calls measureAsRank(). Returns BadInput if
/// a process rejects its arguments. Only judge() sets verdicts to Slow.
Result<PairReport> measurePairs(const MeasureOptions &options);

// -- The two processes that measure a pair. --

/// One path in one direction. Rank 0 uses the pair's first device.
struct Step {
  Path path = Path::PutEngine;
  int64_t source = 0; ///< the rank that sends

  bool operator==(const Step &) const = default;
  /// Returns a number below kSteps, for command lines. of() is the inverse.
  int64_t number() const { return 2 * static_cast<int64_t>(path) + source; }
  static Step of(int64_t number) { return {static_cast<Path>(number / 2), number % 2}; }
};
inline constexpr int64_t kSteps = 2 * int64_t(kAllPaths.size());

/// A record that a rank writes atomically to a pipe. A rank may die at any point without
/// invalidating the records that it has written.
struct Record {
  enum class Kind : uint8_t {
    Device,    ///< `text` identifies and describes the device of rank `step.source`
    Begin,     ///< transfers of `bytes` are about to start
    Bandwidth, ///< `value` is in GB/s
    Latency,   ///< `value` is in microseconds, and is valid for both directions
    Wrong,     ///< wrong data has arrived; `wrong` describes the first wrong byte
  };
  Kind kind = Kind::Begin;
  Step step;
  int64_t bytes = 0;
  double value = 0;
  WrongData wrong = {};
  char text[400] = {}; ///< null-terminated
};
static_assert(sizeof(Record) <= PIPE_BUF);

struct MeterOptions {
  std::vector<int64_t> steps; ///< see Step::number(); steps that do not exist are ignored
  std::vector<int64_t> sizes; ///< see MeasureOptions
  int results = -1;           ///< the descriptor to write records to
};

/// Measures all steps and writes the results. The second direction of a path also measures the
/// path's latency. Collective; blocks. Wrong data ends the step, but is not a failure. Returns
/// Unsupported if the devices do not support a path.
Status measureSteps(const MeterOptions &options, const Backend &backend, PlanTimer &timer);

/// Joins the job that launch() has started, and calls measureSteps(). Blocks. Returns the outcome.
Status measureAsRank(const Backend &backend, const MeterOptions &options);

} // namespace braid
