//===- api/ranks/job_state.h - the ranks of a job in this process -----------------------------===//
//
//   auto job = JobState::create(backend, {.ranks = 4});   // all ranks, as threads
//   auto job = JobState::join(backend, options, place);   // one rank
//   auto program = (*job)->choose(source->diags, chooseOptions(...));
//   auto session = (*job)->prepare(plans);
//   (*session)->second.prepared[0]->run(inputs, outputs);
//   (*job)->cluster->synchronize();
//
// Job, Session and all commands that run ranks use these calls. Collective calls must be made by
// every process of the job.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/choose.h"
#include "api/compile/compiled_program.h"
#include "api/job.h"
#include "api/launch/job_rank.h"
#include "runtime/execute/executor.h"

#include <map>
#include <mutex>

#include <unistd.h>

namespace braid {

/// A program prepared on the ranks in this process.
struct SessionPlans {
  std::vector<Plan> plans;                         ///< one for each rank of the job
  std::vector<std::unique_ptr<Prepared>> prepared; ///< one for each rank in this process
  int64_t bytes = 0;                               ///< allocated on the ranks in this process
  int64_t most = 0;                                ///< the maximum allocated on any one rank
  bool isCaptured = false; ///< true if a caller's graph on this rank has contained runs
  /// True if, at the last prepare(), a caller's graph on any rank contained runs of this session.
  bool isInGraph = false;
};
/// Sessions by number, which is the same on all ranks.
using Sessions = std::map<uint64_t, SessionPlans>;

/// The ranks of a job in this process. Combines JobRank, the process's membership in the job, and
/// Cluster, the backend's devices. Not thread-safe.
struct JobState {
  /// Creates all ranks as threads. Returns Unsupported if the backend's ranks must be processes.
  static Result<std::unique_ptr<JobState>> create(const Backend &backend,
                                                  const ClusterOptions &options);
  /// Creates one rank. Returns Unsupported on all ranks if the backend's ranks must be threads.
  static Result<std::unique_ptr<JobState>>
  join(const Backend &backend, const ClusterOptions &options, std::unique_ptr<JobRank> rank);
  /// Joins the job at `place`, and creates the state of this rank.
  static Result<std::unique_ptr<JobState>> join(const Backend &backend,
                                                const ClusterOptions &options, const Place &place);

  /// Creates the state without ranks; create() and join() add the ranks.
  JobState(const Backend &itsBackend, const ClusterOptions &itsOptions)
      : backend(itsBackend), options(itsOptions) {}
  ~JobState();

  const pid_t process = getpid(); ///< the process that owns the job's threads and connections
  const Backend backend;
  const ClusterOptions options;
  int64_t mostBytes = 0; ///< see JobOptions
  /// The Plans timed on each rank in this process. After a failure, they may still be running.
  std::vector<TimedPlans> trials;
  std::vector<Plan> chosenFor; ///< make messages name the text of the last choose()
  Sessions sessions;
  Sessions ended;       ///< ended sessions, whose runs may still be in flight
  int64_t mostHeld = 0; ///< see JobUsage
  uint64_t nextSession = 0;
  uint32_t nextCommand = 0; ///< see Plan::firstCommand
  int64_t marks = 0;
  bool isCaptured = false;       ///< true if the last run's stream is being captured
  std::unique_ptr<JobRank> rank; ///< null if all ranks are threads of this process
  std::unique_ptr<Cluster> cluster;
  std::mutex ending; ///< held by Job::abort(), and by Job::close() while it resets `cluster`

  bool areThreads() const { return rank == nullptr; }
  bool isRank0Here() const { return cluster->firstHosted() == 0; }
  /// Returns a timer for a rank in this process, whose Plans are added to `trials`.
  PlanTimer timerOn(int64_t number);
  /// Waits until no rank uses the memory of the Plans that were timed, and releases the memory.
  Status recycleTrials(int64_t number);
  /// Returns true in a process forked from the job's process. The forked process has copies of the
  /// job's objects, but must neither use nor release the resources that the objects own.
  bool isForked() const { return getpid() != process; }
  /// Returns BadInput if isForked().
  Status expectOwnProcess() const;
  /// Returns BadInput if isForked() or the job is closed.
  Status expectOpen() const;
  /// Returns BadInput if any rank cannot release its resources yet. Fails the job with BadInput if
  /// any rank is not in Job::close(). Collective.
  Status expectNothingHeld();
  /// Returns BadInput or Unsupported if this job cannot run `compiled` with the run knobs `run`.
  Status check(const Compiled &compiled, const Configuration &run) const;
  /// Compiles the fusion in `text` with the schedule that is fastest on these ranks. Collective;
  /// first waits for issued work. `how` must be a result of chooseOptions(); choose() adds the
  /// job's properties. If `how.warn` is empty, warnings are added to ProgramState::trials.
  Result<std::shared_ptr<ProgramState>> choose(const Diagnostics &text, ChooseOptions how);
  /// Adds a session: allocates memory, exchanges handles and tunes GEMMs. Frees memory of ended
  /// sessions. `plans` has one Plan per rank. Returns Unsupported if the sessions would exceed
  /// `mostBytes`. Collective.
  Result<Sessions::iterator> prepare(std::vector<Plan> plans, TransferMode mode = {},
                                     UnknownGemms unknown = UnknownGemms::Measure);
  /// Ends a session. Its runs may still be in flight.
  void end(Sessions::iterator session);
  /// Registers the Plans of all sessions, so that error messages can name their commands. Slow if
  /// there are many Plans.
  void showPlans();
  /// Gathers one text per rank, in rank order. `textOf` returns the text of a rank in this process
  /// and is called concurrently, on one thread per rank. Collective.
  Result<std::vector<std::string>> gather(llvm::function_ref<std::string(int64_t number)> textOf);
  JobUsage usage() const;
  /// Records that the ranks in this process are entering `call`.
  void note(JobCall call, uint32_t program = kNoCommand);
  /// Releases the resources of ended sessions. Must be called after all ranks have synchronized,
  /// for example to prepare `newest`, while nothing is running. Ranks exchange their memory usage
  /// and their captured sessions, so that they agree even if graphs are destroyed concurrently.
  Status settle(SessionPlans *newest = nullptr);
  /// Records `cause` as the failure of all ranks, unless a rank failed earlier. Returns the
  /// recorded failure.
  Status fail(const Status &cause);

private:
  void showPlans(llvm::ArrayRef<Plan> plans);
  std::string describeHeld(int64_t number, const SessionPlans *newest) const;
  std::string whatIsHeld(int64_t number) const;
};

} // namespace braid
