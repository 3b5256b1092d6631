//===- api/ranks/job_state.h - what a Job holds -----------------------------------------------===//
#pragma once

#include "api/autotune/choose.h"
#include "api/job.h"
#include "api/launch/job_rank.h"

#include <map>
#include <mutex>
#include <set>

#include <unistd.h>

namespace braid {

/// The Plans of a session, and what it has prepared on the ranks that are here.
struct SessionPlans {
  std::vector<Plan> plans; ///< one for each rank of the job
  int64_t bytes = 0;       ///< allocated on the ranks here
  int64_t most = 0;        ///< the largest allocation on any one rank
  /// When the job prepared a program last: a graph of the caller's held runs, on some rank.
  bool isInGraph = false;
};
/// Sessions by number. Numbers are the same on all ranks.
using Sessions = std::map<uint64_t, SessionPlans>;

struct Job::Impl {
  const pid_t process = getpid(); ///< that has the job's threads and connections
  JobOptions options;
  Backend backend;
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
  std::unique_ptr<LocalMesh> mesh;
  std::mutex ending; ///< held by abort(), and where close() takes the mesh away

  /// This is a child of the process that has the job, made by fork(): it has a copy of the objects,
  /// and must neither use nor release what they stand for.
  bool isForked() const { return getpid() != process; }
  /// BadInput if so.
  Status expectOwnProcess() const;
  /// BadInput then, and once the job is closed.
  Status expectOpen() const;
  /// Why this rank cannot give everything back now; "" if it can.
  std::string whatIsHeld(int64_t number) const;
  Result<std::vector<std::string>> askWhatIsHeld();
  /// BadInput or Unsupported if this job cannot run that, with its knobs of the run.
  Status check(const Compiled &compiled, const Configuration &run) const;
  /// Unsupported if sessions would hold more than JobOptions::mostBytes on a rank.
  Status checkBound(int64_t bytes, const std::string &program) const;
  /// Collective; as Job::compileText() of `auto`.
  Result<CompiledProgram> choose(const std::string &name, const std::string &text,
                                 const CompileOptions &given, double seconds);
  /// The Plans that messages name: those of all sessions. Of many, it takes long.
  void showPlans();
  /// Adds one session's Plans; hidePlans() removes them.
  void showPlans(const SessionPlans &session);
  void hidePlans(const SessionPlans &session);

  /// Each rank here makes that call next.
  void note(JobCall call, uint32_t program = kNoCommand);
  Sessions::iterator add(SessionPlans session);
  /// It has ended; what was issued of it may still run.
  void end(Sessions::iterator session);
  /// When all ranks have met, perhaps to prepare `newest`, and nothing runs: nothing of what has
  /// ended is needed. Ranks tell each other what they hold, and which sessions graphs hold. When a
  /// graph goes is each rank's own matter, but all of them decide alike by what is known here.
  Status settle(SessionPlans *newest = nullptr);
};

} // namespace braid
