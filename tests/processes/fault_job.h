//===- tests/processes/fault_job.h - jobs of real processes that fail -------------------------===//
//
// For each job, the test program starts a copy of itself as the launcher, which starts further
// copies as ranks. All of them report through files in the job's folder.
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
  int64_t graceMs = 10000; ///< grace period of Braid's launcher; longer than any delay
  /// If true, a launcher other than Braid's starts the ranks, and rank 0 hosts the rendezvous.
  bool isForeign = false;
  /// If at least 0, ranks choose their schedule after joining and time this many candidates.
  int64_t timesBest = -1;
  /// If true, rank 0 rejects the chosen schedule.
  bool isRejected = false;
  std::vector<Fault> faults = {};
};
std::string str(const JobSpec &spec);

/// The report that a rank writes when it ends. A rank that dies earlier writes none.
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
  std::string saidFailure = {}; ///< the first failure that Braid's launcher reported
  int aliveWhenSaid = -1;       ///< rank processes that were alive at that time
  int64_t causeRank = -1;
  uint32_t committed = 0;
  uint64_t struckNs = 0; ///< time of the first fault, or 0
  int64_t elapsedMs = 0; ///< duration of the whole job
  /// Descriptions of resources that should have been released.
  std::vector<std::string> leftovers = {};
  std::string output = {}; ///< stdout and stderr of all processes

  bool hasStruck() const { return struckNs != 0; }
  /// Time from the fault to the end of the last rank that reported.
  int64_t slowestSurvivorMs() const;
  /// Describes the outcome of the job and the report of every rank.
  std::string str() const;
};

/// If this process is a launcher or a rank, plays that role and returns the exit status. Otherwise,
/// returns nullopt.
std::optional<int> playRole();

/// Runs a job in separate processes and waits for its end.
JobOutcome runJob(const JobSpec &spec);
/// Runs the jobs, `atOnce` of them at a time. Starts no job after `until`. Calls `onEnd` with each
/// outcome, in any order, but never concurrently. Returns the number of jobs that were run.
size_t runJobs(const std::vector<JobSpec> &specs, size_t atOnce, Deadline until,
               const std::function<void(const JobSpec &, const JobOutcome &)> &onEnd);

/// The program of a job and the Plans of all ranks.
struct FaultyProgram {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};
FaultyProgram makeProgram(const JobSpec &spec);

/// Lists the errors in the outcome that no fault can justify. All reports must have the same
/// status, no resource may be leaked, only ranks with a fault may lack a report, and a successful
/// rank must have compared all elements.
std::vector<std::string> contradictions(const JobSpec &spec, const JobOutcome &outcome);

} // namespace braid::test
