//===- tests/processes/fault_job.h - jobs of real processes that fail -------------------------===//
//
// The test program starts copies of itself: one for each job as its launcher, which starts further
// copies as ranks. They report through files in the job's folder.
//
//   int main(int argc, char **argv) {
//     if (std::optional<int> status = playRole())
//      return *status; // the process was a launcher or a rank
//     ... tests ...
//   }
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/job/bootstrap/socket.h"
#include "tests/processes/fault.h"

#include <atomic>

namespace braid::test {

struct JobSpec {
  int64_t ranks = 3;
  std::string schedule = "pairwise;protocol=get"; ///< in the syntax of --schedule
  int64_t iterations = 3;
  int64_t timeoutMs = 800, joinTimeoutMs = 5000;
  int64_t graceMs = 10000; ///< grace period of our launcher; longer than any delay
  /// Another launcher starts the ranks: rank 0 hosts the rendezvous.
  bool isForeign = false;
  /// If at least 0, ranks choose their schedule after joining and time this many candidates.
  int64_t timesBest = -1;
  /// Rank 0 rejects the choice.
  bool isRejected = false;
  std::vector<Fault> faults = {};
};
std::string str(const JobSpec &spec);

/// The report of a rank when it ends. A rank that died earlier has none.
struct Verdict {
  bool isThere = false;
  int code = -1; ///< StatusCode
  std::string message = {};
  int64_t elementsCompared = 0;
  uint64_t endNs = 0;         ///< CLOCK_MONOTONIC, after everything has been destroyed
  std::string ending = {};    ///< the exit of the process, as seen by its launcher
  std::string sent, received; ///< kinds of messages
};

struct JobOutcome {
  std::vector<Verdict> ranks = {};
  int code = -1; ///< as reported by the launcher, or by all ranks if there is another launcher
  std::string message = {};
  std::string saidFailure = {}; ///< the first failure that our launcher reported
  int aliveWhenSaid = -1;       ///< rank processes that were alive at that time
  int64_t causeRank = -1;
  uint32_t committed = 0;
  uint64_t struckNs = 0; ///< time of the first fault, or 0
  int64_t elapsedMs = 0; ///< duration of the whole job
  /// descriptions of resources that should have been released
  std::vector<std::string> leftovers = {};
  std::string output = {}; ///< stdout and stderr of all processes

  bool hasStruck() const { return struckNs != 0; }
  /// Time from the fault to the end of the last rank that reported.
  int64_t slowestSurvivorMs() const;
  /// A rank with a fault that ends it may have no report.
  std::string str() const;
};

/// Returns nothing if this process is neither a launcher nor a rank; else its exit status.
std::optional<int> playRole();

/// Runs a job in separate processes and waits for its end.
JobOutcome runJob(const JobSpec &spec);
/// Runs several jobs at a time until all are done or `until` is reached. `onEnd` gets the outcomes
/// in any order, one at a time. Returns the number of jobs that were run.
size_t runJobs(const std::vector<JobSpec> &specs, size_t atOnce, Deadline until,
               const std::function<void(const JobSpec &, const JobOutcome &)> &onEnd);

/// The program of a job and the Plans of all ranks.
struct FaultyProgram {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};
FaultyProgram makeProgram(const JobSpec &spec);

/// Lists errors in the outcome that no fault excuses. All ranks that reported must report the same,
/// no resource may be left, and a successful job must be complete and exact on all ranks except
/// those that a fault may have ended.
std::vector<std::string> contradictions(const JobSpec &spec, const JobOutcome &outcome);

} // namespace braid::test
