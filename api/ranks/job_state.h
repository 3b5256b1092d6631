//===- api/ranks/job_state.h - what a Job holds -----------------------------------------------===//
#pragma once

#include "api/autotune/choose.h"
#include "api/job.h"
#include "api/launch/job_rank.h"

#include <list>
#include <mutex>

#include <unistd.h>

namespace braid {

/// The Plans of a session, and what it has prepared on the ranks that are here.
struct SessionPlans {
  std::vector<Plan> plans; ///< of all ranks
  int64_t bytes = 0;       ///< of what it allocates here
  int64_t most = 0;        ///< of what it allocates on one rank
  /// When the job prepared a program last: a graph of the caller's held runs, on some rank.
  bool isInGraph = false;
};

struct Job::Impl {
  const pid_t process = getpid(); ///< that has the job's threads and connections
  JobOptions options;
  Backend backend;
  std::vector<TimedPlans> trials; ///< of a choice that has failed; what was issued may still run
  std::list<SessionPlans> sessions;
  std::list<SessionPlans> ended; ///< what was issued of them may still run
  uint32_t nextCommand = 0;      ///< see Plan::firstCommand
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
  /// The Plans that messages name: those of all sessions.
  void showPlans();
};

} // namespace braid
