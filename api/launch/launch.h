//===- api/launch/launch.h - starts the ranks of a job and waits for them to end --------------===//
//
// The launcher is the job's host and the parent process of the ranks: it runs the Rendezvous,
// observes how each rank ends, and reaps its process. Each rank is a copy of this program that
// reads its rank from the environment:
//
//   BRAID_RANK, BRAID_RANKS   the rank and the number of ranks
//   BRAID_JOB                 a random name for the job
//   BRAID_MEETING             the name of the rendezvous socket
//   OPENBLAS_NUM_THREADS      1
//
// No rank outlives the launcher: if the launcher dies for any reason, ranks that have joined are
// killed, and others cannot join. launch() returns only after all ranks have been reaped.
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

/// Returns the limit on open files that this process needs in order to launch `ranks` ranks.
int64_t openFilesFor(int64_t ranks);

struct LaunchOptions {
  int64_t ranks = 1;
  /// The command line of every rank, including argv[0], which does not select the executable. If
  /// empty, ranks use the command line of this process.
  std::vector<std::string> arguments = {};
  /// Variables to add to the environment of every rank, replacing variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// The standard input of every rank; each rank reads the whole text.
  std::string input = {};
  /// All ranks must join the job within this time.
  std::chrono::milliseconds timeout{60000};
  /// Delay before running ranks are killed after a failure. Stopped ranks are killed immediately.
  std::chrono::milliseconds grace{1000};
  /// After the first committed run, ranks still running are killed after this delay. Unless stopped
  /// by a signal, rank 0 has at least 10 s and is never killed while it may be printing.
  std::chrono::milliseconds teardown{3000};
  /// Forward the stdout and stderr of ranks line by line, as `[2] text`.
  bool prefixOutput = false;
  /// Discard the stdout and stderr of ranks.
  bool discardOutput = false;
  /// Returns the Plans of all ranks, or none if they are not known yet, so that messages can name
  /// the command that a rank was executing. May be called by any thread. The Plans must outlive
  /// launch().
  std::function<llvm::ArrayRef<Plan>(const JobMemory &memory)> plans = {};
  /// Called once, with LaunchReport::status, as soon as the job's failure is certain. Ending all
  /// ranks may take several more seconds.
  std::function<void(const Status &cause)> onFailure = {};
  /// A signal watch to share among several launched jobs. If null, launch() creates one.
  SignalWatch *signals = nullptr;
  /// Called by the thread of launch() about 100 times per second while ranks are running. If it
  /// returns a failure, the job ends with this failure, unless the outcome is already decided.
  std::function<Status()> watch = {};
};

/// The outcome of a job.
struct LaunchReport {
  /// Ok if all ranks committed their run, even if a rank failed later; otherwise the first failure.
  Status status;
  /// The signal that ended the job: SIGINT, SIGTERM or SIGHUP; otherwise 0.
  int signal = 0;
  /// One line for each rank that did not end as `status` implies: "rank 2: killed by signal 9
  /// (Killed)", with the reason if the launcher killed the rank. If some output could not be
  /// forwarded, an additional line reports this. If `signal` is set, there are no lines for ranks.
  std::vector<std::string> endings;
  /// True if the run was committed, but its output was lost. The loss has already been reported.
  bool isOutputLost = false;
  std::string job;                 ///< the job's name
  std::optional<JobMemory> memory; ///< the job's memory, with the final state of each rank

  /// The exit code of the launching command: 128 + signal after a signal, as in a shell.
  int exitCode() const {
    return signal != 0 ? 128 + signal
                       : static_cast<int>(isOutputLost ? StatusCode::Unsupported : status.code());
  }
};

/// Blocks until all ranks have ended. If launch() fails, either no rank was started or all started
/// ranks have been killed. Must be called by the main thread, and not concurrently, because it
/// handles SIGINT, SIGTERM and SIGHUP during the call (unless they are ignored): the first signal
/// aborts the job and is forwarded to the ranks; the second kills the ranks.
Result<LaunchReport> launch(const LaunchOptions &options);

} // namespace braid
