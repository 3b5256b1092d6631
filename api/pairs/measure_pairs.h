//===- api/pairs/measure_pairs.h - measures every pair of a machine's devices -----------------===//
//
// Two processes measure two devices, over all paths and in both directions. If a process dies or a
// transfer does not end, both processes are ended, the current step gets this as its verdict, and
// two new processes measure the rest. The first hang of a pair takes the whole time limit;
// afterwards the pair's limit is a small multiple of its longest transfer.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/pairs/pair_meter.h"

#include <chrono>
#include <functional>

namespace braid {

struct MeasureOptions {
  std::string backend;          ///< a backend whose ranks can be processes
  std::vector<int64_t> devices; ///< the backend's device numbers, distinct, at least two
  std::vector<Path> paths;      ///< distinct
  std::chrono::milliseconds timeout{20000}; ///< maximum time between two records
  /// The command line, including argv[0], of a process that calls measureAsRank(). The numbers of
  /// its steps and the descriptor for its records are added: --measure-steps 0,1 --measure-to 5.
  std::vector<std::string> command;
  /// Called before each pair of devices, with its number, starting at 1.
  std::function<void(int64_t one, int64_t other, size_t number)> progress;
};

/// Blocks until all pairs are measured. Must be called by the main thread, see launch(). Returns
/// BadInput if the processes refuse to start. No verdict is Slow before judge().
Result<PairReport> measurePairs(const MeasureOptions &options);

} // namespace braid
