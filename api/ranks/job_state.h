//===- api/ranks/job_state.h - the ranks of a job that live in this process -------------------===//
//
//   auto job = JobState::create(backend, {.ranks = 4});   // all ranks, as threads
//   auto job = JobState::join(backend, options, place);   // one rank
//   auto program = (*job)->choose(source->diags, chooseOptions(...));
//   auto session = (*job)->prepare(plans);
//   (*session)->second.prepared[0]->run(inputs, outputs);
//   (*job)->cluster->synchronize();
//
// The library's Job and Session, and all commands that run ranks, use these calls. Collective calls
// must be made by every process of the job.
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
#include <set>

#include <unistd.h>

namespace braid {

/// A program that is prepared on the ranks of this process.
struct SessionPlans {
  std::vector<Plan> plans;                         ///< one for each rank of the job
  std::vector<std::unique_ptr<Prepared>> prepared; ///< one for each rank in this process
  int64_t bytes = 0;                               ///< allocated on the ranks in this process
  int64_t most = 0;                                ///< the largest allocation on any one rank
  /// True if a graph of the caller on some rank held runs of it when a program was last prepared.
  bool isInGraph = false;
};
/// Sessions by number. A session has the same number on all ranks.
using Sessions = std::map<uint64_t, SessionPlans>;

/// The ranks of a job in this process. Combines JobRank, the process's membership in the job, and
/// Cluster, the backend's devices. Not thread-safe.
struct JobState {
  /// Creates all ranks as threads. Returns Unsupported if the backend's ranks must be processes.
  static Result<std::unique_ptr<JobState>> create(const Backend &backend,
                                                  const ClusterOptions &options);
  /// Creates one rank. Returns Unsupported, on all ranks, if ranks cannot be processes.
  static Result<std::unique_ptr<JobState>>
  join(const Backend &backend, const ClusterOptions &options, std::unique_ptr<JobRank> rank);
  /// Joins the job at `place`, and creates the state of this rank.
  static Result<std::unique_ptr<JobState>> join(const Backend &backend,
                                                const ClusterOptions &options, const Place &place);

  ~JobState();

  const pid_t process = getpid(); ///< the process that has the job's threads and connections
  Backend backend;
  ClusterOptions options;
  int64_t mostBytes = 0;          ///< see JobOptions
  std::vector<TimedPlans> trials; ///< Plans of a failed choice; issued runs may not have ended
  Sessions sessions;
  Sessions ended;              ///< ended sessions whose issued runs may not have ended
  int64_t mostHeld = 0;        ///< see JobUsage
  std::set<uint64_t> captured; ///< sessions with runs in a caller's graph, on this rank
  uint64_t nextSession = 0;
  uint32_t nextCommand = 0; ///< see Plan::firstCommand
  int64_t marks = 0;
  bool isCaptured = false;       ///< the stream of the last run is being captured
  std::unique_ptr<JobRank> rank; ///< null if all ranks are threads of this process
  std::unique_ptr<Cluster> cluster;
  std::mutex ending; ///< held by Job::abort(), and by Job::close() while it removes the cluster

  bool areThreads() const { return rank == nullptr; }
  bool isRank0Here() const { return cluster->firstHosted() == 0; }
  /// Returns a barrier for timing, see JobMemory::spinUntilAllCome(), or null if the ranks are
  /// threads.
  Barrier barrier();
  /// Returns true in a child that fork() made from the job's process. The child has copies of the
  /// objects, and must neither use nor release the resources that they represent.
  bool isForked() const { return getpid() != process; }
  /// Returns BadInput if isForked().
  Status expectOwnProcess() const;
  /// Returns BadInput if isForked() or the job is closed.
  Status expectOpen() const;
  /// Returns, for each rank, the reason why it cannot release its resources yet, or "". Collective.
  /// Returns BadInput on all ranks if one of them makes a call other than Job::close().
  Result<std::vector<std::string>> askWhatIsHeld();
  /// Returns BadInput or Unsupported if this job cannot run `compiled` with the knobs `run`.
  Status check(const Compiled &compiled, const Configuration &run) const;
  /// Compiles the fusion in `text` with the fastest schedule on these ranks. Collective. Waits for
  /// issued work first. `how` comes from chooseOptions(); this adds the properties of the job.
  /// Without a listener, warnings are added to ProgramState::trials.
  Result<std::shared_ptr<ProgramState>> choose(const Diagnostics &text, ChooseOptions how);
  /// Adds a session: allocates, exchanges handles, tunes. Collective. Frees the memory of ended
  /// sessions. `plans` are those of all ranks. Returns Unsupported beyond `mostBytes`.
  Result<Sessions::iterator> prepare(std::vector<Plan> plans, TransferMode mode = {},
                                     UnknownGemms unknown = UnknownGemms::Measure);
  /// Ends a session. Its issued runs may still execute.
  void end(Sessions::iterator session);
  /// The Plans of the newest session, in the order of ranks, or none if there was no session.
  llvm::ArrayRef<Plan> newestPlans() const;
  /// Registers the Plans of all sessions for messages. Takes long if there are many Plans.
  void showPlans();
  /// Returns the texts of all ranks, in their order. `textOf` returns the text of a rank in this
  /// process, and is called by one thread for each of these. Collective.
  Result<std::vector<std::string>> gather(llvm::function_ref<std::string(int64_t number)> textOf);
  JobUsage usage() const;
  /// Records that each rank in this process makes this call next.
  void note(JobCall call, uint32_t program = kNoCommand);
  /// Releases the resources of ended sessions. All ranks have met, possibly to prepare `newest`,
  /// and nothing runs. Ranks exchange how much memory they hold and which sessions are in graphs.
  /// Each rank may destroy graphs at any time, but all ranks decide by the exchanged state.
  Status settle(SessionPlans *newest = nullptr);
  /// Records `cause` as the failure of all ranks, unless a rank failed earlier. Returns the
  /// recorded failure.
  Status fail(const Status &cause);

private:
  Status checkBound(int64_t bytes, const std::string &program) const;
  Sessions::iterator add(std::vector<Plan> plans);
  Status prepareRanks(SessionPlans &session, TransferMode mode, UnknownGemms unknown);
  void showPlans(llvm::ArrayRef<Plan> plans);
  std::string describeHeld(int64_t number, const SessionPlans *newest) const;
  std::string whatIsHeld(int64_t number) const;
};

} // namespace braid
