//===- tests/processes/fault_job.h - jobs of real processes, in which something goes wrong ----===//
//
// A test's program starts copies of itself: one for each job, which launches the ranks, and those
// are copies again. What each of them has to say it leaves in the job's folder:
//
//   int main(int argc, char **argv) {
//     if (std::optional<int> status = playRole())
//       return *status; // this was the launcher of a job, or a rank
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
  std::string schedule = "pairwise;protocol=get"; ///< as --schedule takes it
  int64_t iterations = 3;
  int64_t timeoutMs = 800, joinTimeoutMs = 5000;
  int64_t graceMs = 10000; ///< if a launcher of ours starts the job; longer than any delay
  /// Ranks have no launcher of ours: rank 0 hosts the meeting.
  bool isForeign = false;
  /// Ranks choose their schedule when they have met, and time so many candidates for it; -1: no.
  int64_t timesBest = -1;
  /// Rank 0 does not accept what they have chosen.
  bool isRejected = false;
  std::vector<Fault> faults = {};
};
std::string str(const JobSpec &spec);

/// The report of one rank at its end. A rank that did not get so far has none.
struct Verdict {
  bool isThere = false;
  int code = -1; ///< StatusCode
  std::string message = {};
  int64_t elementsCompared = 0;
  uint64_t endNs = 0;         ///< CLOCK_MONOTONIC: everything has been destroyed
  std::string ending = {};    ///< the end of the process, as its launcher saw it
  std::string sent, received; ///< kinds of messages
};

struct JobOutcome {
  std::vector<Verdict> ranks = {};
  int code = -1; ///< as the launcher reports it, or as all ranks do that have no launcher
  std::string message = {};
  std::string saidFailure = {}; ///< the first report of a launcher of ours
  int aliveWhenSaid = -1;       ///< ranks whose processes were still there then
  int64_t causeRank = -1;
  uint32_t committed = 0;
  uint64_t struckNs = 0;                   ///< when the first fault did, or 0
  int64_t elapsedMs = 0;                   ///< for the whole job
  std::vector<std::string> leftovers = {}; ///< everything that should not have been left, in words
  std::string output = {};                 ///< stdout and stderr of all its processes

  bool hasStruck() const { return struckNs != 0; }
  /// From the strike to the end of the last rank that spoke.
  int64_t slowestSurvivorMs() const;
  /// Rank r, if it had a fault that ends it, may have said nothing.
  std::string str() const;
};

/// Nothing if this process is neither a launcher nor a rank; else its exit status.
std::optional<int> playRole();

/// Runs one job in a process of its own and waits for its end.
JobOutcome runJob(const JobSpec &spec);
/// Runs them, some at a time, until all are done or `until` has come. Outcomes are handed out in
/// any order, one at a time. Returns how many were run.
size_t runJobs(const std::vector<JobSpec> &specs, size_t atOnce, Deadline until,
               const std::function<void(const JobSpec &, const JobOutcome &)> &onEnd);

/// The program of `spec`: the Plans of all ranks, and how many elements they compare in all.
struct FaultyProgram {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};
FaultyProgram makeProgram(const JobSpec &spec);

/// Mistakes in the outcome that no fault excuses; empty: none. All ranks that spoke say the same;
/// nothing is left; a success is complete and exact on all ranks but those that a fault may have
/// ended.
std::vector<std::string> contradictions(const JobSpec &spec, const JobOutcome &outcome);

} // namespace braid::test
