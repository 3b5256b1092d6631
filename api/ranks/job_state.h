//===- api/ranks/job_state.h - the ranks of a job that live in this process -------------------===//
//
//   auto job = JobState::create(backend, {.ranks = 4});   // all ranks, as threads
//   auto job = JobState::join(backend, options, place);   // one rank
//   auto program = (*job)->choose(source->diags, chooseOptions(...));
//   auto session = (*job)->prepare(plans);
//   (*session)->second.prepared[0]->run(inputs, outputs);
//   (*job)->cluster->synchronize();
//
// The library's Job and Session, and all commands that have ranks, are made of these calls. Every
// process of a job makes the same collective calls.
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

/// A program that is ready to run on the ranks that are here.
struct SessionPlans {
  std::vector<Plan> plans;                         ///< one for each rank of the job
  std::vector<std::unique_ptr<Prepared>> prepared; ///< one for each rank here
  int64_t bytes = 0;                               ///< allocated on the ranks here
  int64_t most = 0;                                ///< the largest allocation on any one rank
  /// When the job prepared a program last: a graph of the caller's held runs, on some rank.
  bool isInGraph = false;
};
/// Sessions by number. Numbers are the same on all ranks.
using Sessions = std::map<uint64_t, SessionPlans>;

/// Not thread-safe. JobRank and Cluster are its parts: the process's membership in a job of
/// processes, and the backend's devices.
struct JobState {
  /// All ranks, as threads of this process. Unsupported if the backend's ranks are processes.
  static Result<std::unique_ptr<JobState>> create(const Backend &backend,
                                                  const ClusterOptions &options);
  /// One rank. Unsupported, on all ranks, if the backend's ranks cannot be processes.
  static Result<std::unique_ptr<JobState>>
  join(const Backend &backend, const ClusterOptions &options, std::unique_ptr<JobRank> rank);
  /// The same for a rank that has not joined its job yet.
  static Result<std::unique_ptr<JobState>> join(const Backend &backend,
                                                const ClusterOptions &options, const Place &place,
                                                Stragglers stragglers = Stragglers::Kill);

  ~JobState();

  const pid_t process = getpid(); ///< that has the job's threads and connections
  Backend backend;
  ClusterOptions options;
  int64_t mostBytes = 0;          ///< see JobOptions
  std::vector<TimedPlans> trials; ///< Plans of a failed choice, whose issued runs may not be over
  Sessions sessions;
  Sessions ended;                 ///< their issued runs may not be over
  JobUsage usage;                 ///< usage of `sessions`, without `held`
  std::set<uint64_t> captured;    ///< sessions of which graphs of the caller's have had runs, here
  std::vector<uint64_t> inGraphs; ///< sessions whose isInGraph is set
  uint64_t nextSession = 0;
  uint32_t nextCommand = 0; ///< see Plan::firstCommand
  int64_t marks = 0;
  bool isCaptured = false;       ///< the stream of the last run is
  std::unique_ptr<JobRank> rank; ///< null: all ranks are threads of this process
  std::unique_ptr<Cluster> cluster;
  std::mutex ending; ///< held by Job::abort(), and where Job::close() takes the cluster away

  bool areThreads() const { return rank == nullptr; }
  bool isRank0Here() const { return cluster->firstHosted() == 0; }
  /// See JobRank::barrier(); none for threads.
  Barrier barrier() { return rank ? rank->barrier() : nullptr; }
  /// This is a child of the process that has the job, made by fork(): it has a copy of the objects,
  /// and must neither use nor release what they stand for.
  bool isForked() const { return getpid() != process; }
  /// BadInput if so.
  Status expectOwnProcess() const;
  /// BadInput then, and once the job is closed.
  Status expectOpen() const;
  /// Collective. Returns, for each rank, why it cannot release its resources yet, or "". Fails with
  /// BadInput on all ranks if one is in another call than Job::close().
  Result<std::vector<std::string>> askWhatIsHeld();
  /// BadInput or Unsupported if this job cannot run that, with its knobs of the run.
  Status check(const Compiled &compiled, const Configuration &run) const;
  /// The program of the fusion in `text`, by the schedule that is the fastest on these ranks.
  /// Collective; what was issued is done first. `how` as from chooseOptions(); this adds what holds
  /// for the whole job. Without a listener, warnings are a part of ProgramState::trials.
  Result<std::shared_ptr<ProgramState>> choose(const Diagnostics &text, ChooseOptions how);
  /// Adds a session: allocates, exchanges handles, tunes. Collective; afterwards the memory of
  /// ended sessions is free. `plans` are those of all ranks. Unsupported beyond `mostBytes`.
  Result<Sessions::iterator> prepare(std::vector<Plan> plans, TransferMode mode = {},
                                     UnknownGemms unknown = UnknownGemms::Measure);
  /// Ends a session; what was issued of it may still run.
  void end(Sessions::iterator session);
  /// The Plans of the session that was added last, in the order of ranks; empty: there was none.
  llvm::ArrayRef<Plan> newestPlans() const;
  /// The Plans that messages name: those of all sessions. Of many, it takes long.
  void showPlans();
  /// Returns the texts of all ranks, in their order; `textOf` gives those of the ranks here, and is
  /// called by one thread for each of them. Collective.
  Result<std::vector<std::string>> gather(llvm::function_ref<std::string(int64_t number)> textOf);
  /// Tells that each rank here makes this call next.
  void note(JobCall call, uint32_t program = kNoCommand);
  /// When all ranks have met, perhaps to prepare `newest`, and nothing runs: nothing of what has
  /// ended is needed. Ranks tell each other what they hold, and which sessions graphs hold. When a
  /// graph goes is each rank's own matter, but all of them decide alike by what is known here.
  Status settle(SessionPlans *newest = nullptr);
  /// Makes `cause` the failure of all ranks, unless one failed before, and returns the one that
  /// came first.
  Status fail(const Status &cause);

private:
  Status checkBound(int64_t bytes, const std::string &program) const;
  Sessions::iterator add(std::vector<Plan> plans);
  Status prepareRanks(SessionPlans &session, TransferMode mode, UnknownGemms unknown);
  void showPlans(llvm::ArrayRef<Plan> plans);
  std::string describeHeld(int64_t number, const SessionPlans *newest) const;
  void noteInGraphs(const std::set<uint64_t> &held);
  std::string whatIsHeld(int64_t number) const;
};

} // namespace braid
