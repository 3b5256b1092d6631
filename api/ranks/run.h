//===- api/ranks/run.h - runs a program and judges its results --------------------------------===//
#pragma once

#include "api/ranks/mesh.h"

#include <functional>

namespace braid {

struct RunReport;

/// A user's choices about a run.
struct RunOptions {
  int64_t iterations = 1;
  /// Compare every element of every output of every iteration with the reference.
  bool verify = false;
  /// Draws the inputs.
  uint64_t seed = 1;
  std::chrono::milliseconds timeout{60000};
  std::optional<uint64_t> scheduleSeed = {}; ///< see ClusterOptions
  uint32_t queues = 0;                       ///< see ClusterOptions
  /// Record one run as a graph and replay it. Unsupported where the backend has no graphs.
  bool graph = false;
  /// The transfer mode. Unsupported if the backend has no choice.
  TransferMode transferMode = {};
  /// The ranks choose the schedule when they have met (api/autotune/choose.h).
  bool isAuto = false;
  /// Keep what ran when, for RunReport::trace.
  bool trace = false;
  /// Runs issued before the host waits for them; 0: chosen from the size of inputs and outputs, at
  /// most kMaxRunsInFlight. More than one lets successive runs overlap and changes addresses from
  /// run to run.
  int64_t runsInFlight = 0;
  /// Called from time to time with the number of iterations done, in the process of rank 0; from
  /// one thread at a time.
  std::function<void(int64_t done)> progress = {};
  /// Called once in the process of rank 0, when all ranks are done and before the result counts: if
  /// it fails, so does the run, on every rank.
  std::function<Status(const RunReport &)> beforeCommit = {};
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
  double meetSeconds = 0;       ///< until all ranks had come; 0 if they are threads
  double prepareSeconds = 0;    ///< memory, handles, and whatever else comes before the first run
  double runSeconds = 0; ///< issuing and waiting, on the slowest rank; not filling or comparing
  std::string choices;   ///< Compute::choices() of rank 0, in its process
  std::string messages;  ///< Messages::describe(), likewise; empty: it sends none
  /// For a reproducible run, the name of each output and a digest of its bits on all ranks and in
  /// all iterations.
  std::vector<std::pair<std::string, uint64_t>> digests;
  std::string trace; ///< Chrome's JSON, if asked for, in the process of rank 0
};

/// Runs `compiled` on every rank of `backend`, with fresh inputs in each iteration and outputs
/// overwritten with NaNs before it. Inputs of a reproducible run are random numbers, unless
/// `verify` needs its own. Without a fusion the inputs are drawn from the seed and nothing can be
/// compared: `verify` is then BadInput. WrongResult names the first wrong element,
/// or an output of a reproducible run that every rank has whole, but not with the same bits.
Result<RunReport> run(const Compiled &compiled, const Backend &backend, const RunOptions &options);

/// The same with Plans of all ranks that were made before, and with the ranks in processes of their
/// own if `client` is given: this process then runs the one rank that it is. The processes of all
/// ranks make this call with the same options; a difference is BadInput and says who has which.
/// All of them return Ok, or all the first failure of any.
Result<RunReport> run(const Compiled &compiled, llvm::ArrayRef<Plan> plans, const Backend &backend,
                      const RunOptions &options, std::unique_ptr<Client> client = nullptr);

/// The ranks of a run that have met.
struct MetRanks {
  std::unique_ptr<LocalMesh> mesh;
  double seconds = 0; ///< until all had come; 0 if they are threads
};

/// The same in two steps, between which the ranks may choose what to run. `compiled` is of the
/// fusion or program that it will be; the Plans and what `options` say about launches and transfers
/// may be others in the second step. Collective. Once all are done, the second step may come again,
/// for another program; all Plans outlive the ranks.
Result<MetRanks> meet(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                      std::unique_ptr<Client> client = nullptr);
Result<RunReport> run(const MetRanks &ranks, const Compiled &compiled, llvm::ArrayRef<Plan> plans,
                      const RunOptions &options);

/// The checks of run() before it begins: refuses options that make no sense for this program and
/// backend, and too many ranks. `areThreads`: all ranks are to live in this process.
Status checkRun(const Compiled &compiled, const Backend &backend, const RunOptions &options,
                bool areThreads);
/// True if a schedule that the user does not name is measured: on GPUs that reach peers' memory.
/// The times of the host's own cores vary, and the cost model does not know the costs of messages.
bool choosesByItself(const Backend &backend);
/// Unsupported if `config` gives a knob of the run a value that only GPUs have, or messages not.
Status checkModes(const Configuration &config, const Backend &backend);
/// Unsupported if the run takes more memory than is available. run() asks, too, before it begins.
Status expectRunMemory(llvm::ArrayRef<Plan> plans, const Backend &backend,
                       const RunOptions &options, bool areThreads);

/// The backends of this build.
BackendRegistry builtinBackends();

} // namespace braid
