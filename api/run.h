//===- api/run.h - runs a program and judges its results --------------------------------------===//
#pragma once

#include "api/mesh.h"

#include <functional>

namespace braid {

/// What a user chooses about a run.
struct RunOptions {
  int64_t iterations = 1;
  /// Compare every element of every output of every iteration with the reference.
  bool verify = false;
  /// Draws the inputs.
  uint64_t seed = 1;
  std::chrono::milliseconds timeout{60000};
  std::optional<uint64_t> scheduleSeed = {}; ///< see ClusterOptions
  uint32_t queues = 0;                       ///< see ClusterOptions
  /// Keep what ran when, for RunReport::trace.
  bool trace = false;
  /// Runs issued before the host waits for them; 0: chosen from the size of inputs and outputs, at
  /// most kMaxRunsInFlight. More than one lets successive runs overlap and changes addresses from
  /// run to run.
  int64_t runsInFlight = 0;
  /// Called from time to time with the number of iterations done; from one thread at a time.
  std::function<void(int64_t done)> progress = {};
};

inline constexpr int64_t kMaxRunsInFlight = 4;

/// What happened.
struct RunReport {
  int64_t ranks = 0;
  int64_t iterations = 0;
  int64_t runsInFlight = 0;
  int64_t commandsPerRun = 0;   ///< on rank 0
  int64_t streams = 0;          ///< on rank 0, the caller's not counted
  int64_t elementsCompared = 0; ///< over all ranks, iterations and outputs; 0: nothing was compared
  double prepareSeconds = 0;
  double runSeconds = 0; ///< issuing and waiting, on the slowest rank; not filling or comparing
  std::string trace;     ///< Chrome's JSON, if asked for
};

/// Runs `compiled` on every rank of `backend`, with fresh inputs in each iteration and outputs
/// overwritten with NaNs before it. Without a fusion the inputs are drawn from the seed and
/// nothing can be compared: `verify` is then BadInput. WrongResult names the first wrong element.
Result<RunReport> run(const Compiled &compiled, const Backend &backend, const RunOptions &options);

/// The backends of this build.
BackendRegistry builtinBackends();

} // namespace braid
