//===- api/ranks/run.h - runs a program and verifies its results ------------------------------===//
#pragma once

#include "api/ranks/job_state.h"
#include "runtime/progress.h"

namespace braid {

/// The user's choices for a run.
struct RunOptions {
  int64_t iterations = 1;
  /// Compare every element of every output of every iteration with the reference.
  bool verify = false;
  /// The seed for the inputs.
  uint64_t seed = 1;
  ClusterOptions cluster = {};
  /// The run knobs: launch mode and transfer mode. The backend must support their values.
  Configuration knobs = {};
  /// If true, the ranks choose the schedule once all have joined (see api/autotune/choose.h).
  bool isAuto = false;
  /// Record when each command was executed, for RunReport::trace.
  bool trace = false;
  /// Called with the number of finished iterations, in the process of rank 0.
  ProgressFn progress = {};

  /// Returns true if one run is recorded as a graph and replayed.
  bool isGraph() const { return launchModeOf(knobs) == LaunchMode::Graph; }
};

/// The outcome of a run. Counts, `runSeconds` and `digests` are equal in all ranks' processes.
struct RunReport {
  int64_t commandsPerRun = 0;   ///< on rank 0
  int64_t streams = 0;          ///< on rank 0, excluding the caller's stream
  int64_t elementsCompared = 0; ///< over all ranks, iterations and outputs; 0 without `verify`
  double prepareSeconds = 0;    ///< allocation, handle exchange and other work before the first run
  double runSeconds = 0;        ///< the slowest rank's time to issue all runs and to wait for them
  std::string choices;          ///< Compute::choices() of rank 0; set only in the process of rank 0
  std::string messages;         ///< Messages::describe() if rank 0 sends any; set like `choices`
  /// For a reproducible run, the name of each output, and a digest of its bits over all ranks and
  /// iterations.
  std::vector<std::pair<std::string, uint64_t>> digests;
  std::string trace; ///< Chrome trace JSON if requested; set only in the process of rank 0
};

/// Performs the checks that do not need ranks: rejects too many ranks, and options that the program
/// or backend does not support. If `areThreads`, all ranks will be in this process.
Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads);

/// Waits until all ranks have joined, and compares their options. If they differ, returns BadInput
/// with a message that names the ranks and their values. Collective.
Status compareOptions(JobState &job, const Compiled &compiled, const RunOptions &options);

/// Runs `compiled` on the ranks of `job`, in a session that ends with this call. `plans` has one
/// Plan per rank. Each iteration uses new inputs, and outputs prefilled with NaNs. Inputs of a
/// reproducible run are random numbers, unless `verify` requires other values. If `compiled` has no
/// fusion, inputs are random and outputs are not compared. Returns WrongResult if an element is
/// wrong, or if an output of a reproducible run should be bitwise equal on all ranks but is not.
/// The message names the first such element or output. Collective: all ranks return Ok, or all
/// return the first failure.
Result<RunReport> run(JobState &job, const Compiled &compiled, std::vector<Plan> plans,
                      const RunOptions &options);

} // namespace braid
