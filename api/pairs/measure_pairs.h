//===- api/pairs/measure_pairs.h - measures every pair of devices on a machine ----------------===//
//
// Two processes measure a pair of devices over all paths, in both directions. If a process dies or
// a transfer hangs, both processes are killed, the current step's verdict is set accordingly, and
// two new processes measure the remaining steps. A pair's first hang takes the full timeout to
// detect; later timeouts are a small multiple of its longest pause between records.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_meter.h"

#include <chrono>
#include <functional>

namespace braid {

struct MeasureOptions {
  std::string backend;          ///< a backend whose ranks can be processes
  std::vector<int64_t> devices; ///< the backend's device numbers; at least two, all distinct
  std::vector<Path> paths;      ///< all distinct
  std::chrono::milliseconds timeout{20000}; ///< maximum time between records
  /// The command line, including argv[0], of a process that calls measureAsRank(). measurePairs()
  /// appends the step numbers and the output descriptor: --measure-steps 0,1 --measure-to 5.
  std::vector<std::string> command;
  /// Called before each pair is measured. `number` is the number of the pair, starting at 1.
  std::function<void(int64_t one, int64_t other, size_t number)> progress;
};

/// Blocks until all pairs are measured. Must be called on the main thread; see launch(). Returns
/// BadInput if a process rejects its arguments. Only judge() sets verdicts to Slow.
Result<PairReport> measurePairs(const MeasureOptions &options);

} // namespace braid
