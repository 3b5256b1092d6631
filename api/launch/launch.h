//===- api/launch/launch.h - starts the ranks of a job, and stays until all have ended --------===//
//
// The launcher is the job's host and the parent of its ranks: it runs the Rendezvous, notices how
// each rank ends, and reaps it. Ranks are further copies of this program; which rank a copy is it
// reads from its environment:
//
//   BRAID_RANK, BRAID_RANKS   its place
//   BRAID_JOB                 a random name
//   BRAID_MEETING             the name of the socket where the ranks meet
//   OPENBLAS_NUM_THREADS      1
//
// Nothing survives: a rank dies with its launcher, whatever that dies of, and launch() returns when
// every rank has been reaped.
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

/// Files that this process has to be able to have open for so many ranks.
int64_t openFilesFor(int64_t ranks);

struct LaunchOptions {
  int64_t ranks = 1;
  /// Every rank's command line, from argv[0] on. The program is this one, whatever that says.
  std::vector<std::string> arguments;
  /// Added to every rank's environment, in place of what has the same name.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// The standard input of every rank: each finds all of it.
  std::string input;
  /// All ranks have to have joined the job within this, and none may stay stopped (SIGSTOP or the
  /// like) for as long, waited for or not. A job that is suspended as a whole, this process
  /// included, goes on when it is continued.
  std::chrono::milliseconds timeout{60000};
  /// After a failure, ranks that have not ended are killed after this; stopped ones at once.
  std::chrono::milliseconds grace{1000};
  /// After the first run that counts, ranks that have not ended are killed after this; rank 0, if
  /// it is not stopped, after 10 s at least, and never if it may be printing.
  std::chrono::milliseconds teardown{3000};
  /// Pass on what ranks write to stdout and stderr line by line, as `[2] text`.
  bool prefixOutput = false;
  /// Throw away what ranks write to stdout and stderr.
  bool discardOutput = false;
  /// Returns the Plans of all ranks, so that messages can say what a rank was doing; none as long
  /// as nobody knows. Called when there is such a message, by any thread; the Plans outlive
  /// launch().
  std::function<llvm::ArrayRef<Plan>(const JobMemory &memory)> plans = {};
  /// Called once, as soon as it is certain that the job has failed, with what the report will say:
  /// ending all ranks may take seconds.
  std::function<void(const Status &cause)> onFailure = {};
  /// Watches signals for a caller who launches one job after another; null: launch() does, while it
  /// runs.
  SignalWatch *signals = nullptr;
  /// Asked some fifty times a second while there are ranks. The first failure that it returns
  /// before it is known how the job ends ends it, for that cause. By the calling thread.
  std::function<Status()> watch = {};
};

/// The end of a job.
struct LaunchReport {
  /// Ok if all ranks committed their run, whatever happened to them later; else the first cause.
  Status status;
  /// The SIGINT, SIGTERM or SIGHUP that ended the job, or 0.
  int signal = 0;
  /// Which ranks ended in another way than `status` says: "rank 2: killed by signal 9 (Killed)",
  /// and if that was us, because what.
  /// Empty after an interrupt. And that what ranks wrote could not be passed on, if so.
  std::vector<std::string> endings;
  /// The run counts, but rank 0 could not print what came of it, and has said why.
  bool isOutputLost = false;
  std::string job;                 ///< its name
  std::optional<JobMemory> memory; ///< the job's, with what the ranks left in it

  /// The exit code of the launching command: 128 + signal after a signal, as a shell says it.
  int exitCode() const {
    return signal != 0 ? 128 + signal
                       : static_cast<int>(isOutputLost ? StatusCode::Unsupported : status.code());
  }
};

/// Blocks until all ranks have ended. A failure of the result itself means that no rank was
/// started, or that all of them have been killed again. To be called by the main thread, once at a
/// time: it handles SIGINT, SIGTERM and SIGHUP meanwhile (unless they are ignored). The first one
/// aborts the job and is passed on, the second one kills.
Result<LaunchReport> launch(const LaunchOptions &options);

} // namespace braid
