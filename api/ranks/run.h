//===- api/ranks/run.h - runs a program and judges its results --------------------------------===//
#pragma once

#include "api/ranks/job_state.h"
#include "runtime/progress.h"

#include <functional>

namespace braid {

/// A user's choices about a run.
struct RunOptions {
  int64_t iterations = 1;
  /// Compare every element of every output of every iteration with the reference.
  bool verify = false;
  /// Draws the inputs.
  uint64_t seed = 1;
  /// The ranks; `ranks` and `reproducible` are the program's.
  ClusterOptions cluster = {};
  /// The knobs of the run: launch and transfer mode. Unsupported if the backend has no choice.
  Configuration knobs = {};
  /// The ranks choose the schedule when they have met (api/autotune/choose.h).
  bool isAuto = false;
  /// Keep what ran when, for RunReport::trace.
  bool trace = false;
  /// Hears in the process of rank 0 how many iterations are done.
  ProgressFn progress = {};

  /// One run is recorded as a graph and replayed.
  bool isGraph() const { return launchModeOf(knobs) == LaunchMode::Graph; }
  /// `cluster` for the ranks of `compiled`.
  ClusterOptions clusterFor(const Compiled &compiled) const;
};

inline constexpr int64_t kMaxRunsInFlight = 4;

/// The outcome of a run. It is the same in the processes of all ranks, except the trace and the
/// choices.
struct RunReport {
  int64_t ranks = 0;
  int64_t iterations = 0;
  int64_t runsInFlight = 0;
  int64_t commandsPerRun = 0;   ///< on rank 0
  int64_t streams = 0;          ///< on rank 0, the caller's not counted
  int64_t hosts = 1;            ///< on which the ranks are
  int64_t networkBytes = 0;     ///< between them, in one run
  int64_t clockErrorNs = 0;     ///< error of times in the trace, if there are several hosts
  int64_t elementsCompared = 0; ///< over all ranks, iterations and outputs; 0: nothing was compared
  double prepareSeconds = 0;    ///< memory, handles, and whatever else comes before the first run
  double runSeconds = 0; ///< issuing and waiting, on the slowest rank; not filling or comparing
  std::string choices;   ///< Compute::choices() of rank 0, in its process
  std::string messages;  ///< Messages::describe(), likewise; empty: it sends none
  /// For a reproducible run, the name of each output and a digest of its bits on all ranks and in
  /// all iterations.
  std::vector<std::pair<std::string, uint64_t>> digests;
  std::string trace; ///< Chrome's JSON, if asked for, in the process of rank 0
};

/// Checks that need no ranks: refuses options that make no sense for this program and backend, and
/// too many ranks. `areThreads`: all ranks are to live in this process.
Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads);
/// Unsupported if the run takes more memory than is available.
Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads);

/// Waits until all ranks are here, and compares what they were asked for: a difference is BadInput
/// and says who has which. Collective.
Status compareOptions(JobState &job, const Compiled &compiled, const RunOptions &options);

/// Runs `compiled` on the ranks of `job`, as a session that ends with this, with fresh inputs in
/// each iteration and outputs overwritten with NaNs before it. `plans` are those of all ranks.
/// Inputs of a reproducible run are random numbers, unless `verify` needs its own. Without a fusion
/// the inputs are drawn from the seed and nothing can be compared. WrongResult names the first
/// wrong element, or an output of a reproducible run that every rank has whole, but not with the
/// same bits. Collective: all ranks return Ok, or all the first failure of any.
Result<RunReport> run(JobState &job, const Compiled &compiled, std::vector<Plan> plans,
                      const RunOptions &options);

} // namespace braid
