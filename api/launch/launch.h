//===- api/launch/launch.h - starts the ranks of a job, and waits until all have ended --------===//
//
// The launcher is the job's host and the parent of its ranks: it runs the Rendezvous, observes how
// each rank ends, and reaps it. Ranks are copies of this program. A copy reads its rank from its
// environment:
//
//   BRAID_RANK, BRAID_RANKS   the rank and the number of ranks
//   BRAID_JOB                 a random name
//   BRAID_MEETING             the name of the rendezvous socket
//   OPENBLAS_NUM_THREADS      1
//
// No rank outlives the launcher: a rank is killed when its launcher dies for any reason, and
// launch() returns after every rank has been reaped.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/plan/plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct LaunchReport;
class SignalWatch;

/// The number of files that this process must be able to open for `ranks` ranks.
int64_t openFilesFor(int64_t ranks);

struct LaunchOptions {
  int64_t ranks = 1;
  /// The command line of every rank, including argv[0], which does not select the program. If it is
  /// empty, that of this process.
  std::vector<std::string> arguments = {};
  /// Variables added to the environment of every rank. They replace variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// The standard input of every rank. Each rank reads all of it.
  std::string input;
  /// All ranks must have joined the job within this time.
  std::chrono::milliseconds timeout{60000};
  /// After a failure, running ranks are killed after this time, and stopped ranks at once.
  std::chrono::milliseconds grace{1000};
  /// After the first committed run, ranks that have not ended are killed after this time. Rank 0,
  /// if it is not stopped, has at least 10 s, and is never killed while it may be printing.
  std::chrono::milliseconds teardown{3000};
  /// Forward the stdout and stderr of ranks line by line, as `[2] text`.
  bool prefixOutput = false;
  /// Discard the stdout and stderr of ranks.
  bool discardOutput = false;
  /// Returns the Plans of all ranks, so that messages can say which command a rank was executing,
  /// or none if they are not known yet. Any thread may call it when it writes such a message. The
  /// Plans must outlive launch().
  std::function<llvm::ArrayRef<Plan>(const JobMemory &memory)> plans = {};
  /// Called once, as soon as it is certain that the job has failed, with the status of the report.
  /// Ending all ranks may take seconds more.
  std::function<void(const Status &cause)> onFailure = {};
  /// The signal watch of a caller that launches several jobs. If null, launch() creates one.
  SignalWatch *signals = nullptr;
  /// Called by the calling thread about a hundred times a second while ranks run. The first failure
  /// that it returns ends the job, unless the job's outcome is already decided.
  std::function<Status()> watch = {};
};

/// The outcome of a job.
struct LaunchReport {
  /// Ok if all ranks committed their run, even if a rank failed later; otherwise the first cause.
  Status status;
  /// The SIGINT, SIGTERM or SIGHUP that ended the job, or 0.
  int signal = 0;
  /// The ranks that ended in another way than `status` says: "rank 2: killed by signal 9 (Killed)",
  /// with the reason if the launcher killed the rank. Also says if the output of ranks could not be
  /// forwarded. Empty after an interrupt.
  std::vector<std::string> endings;
  /// The run is committed, but rank 0 could not print its results, and has reported why.
  bool isOutputLost = false;
  std::string job;                 ///< its name
  std::optional<JobMemory> memory; ///< the job's memory, with the ranks' last state

  /// The exit code of the launching command: 128 + signal after a signal, as in a shell.
  int exitCode() const {
    return signal != 0 ? 128 + signal
                       : static_cast<int>(isOutputLost ? StatusCode::Unsupported : status.code());
  }
};

/// Blocks until all ranks have ended. A failed Result means that no rank was started or that all
/// started ranks were killed. Must be called by the main thread, and not concurrently: it handles
/// SIGINT, SIGTERM and SIGHUP during the call (unless they are ignored). The first such signal
/// aborts the job and is forwarded to the ranks; the second kills them.
Result<LaunchReport> launch(const LaunchOptions &options);

} // namespace braid
