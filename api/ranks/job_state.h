//===- api/ranks/job_state.h - what a Job holds -----------------------------------------------===//
#pragma once

#include "api/job.h"
#include "api/launch/job_rank.h"
#include "api/ranks/mesh.h"

#include <list>

namespace braid {

/// The Plans of a session, and what it has prepared on the ranks that are here.
struct SessionPlans {
  std::vector<Plan> plans; ///< of all ranks
  int64_t bytes = 0;       ///< of what it allocates here
};

struct Job::Impl {
  JobOptions options;
  std::unique_ptr<JobRank> rank; ///< null: all ranks are threads of this process
  std::list<SessionPlans> sessions;
  std::list<SessionPlans> ended; ///< what was issued of them may still run
  std::unique_ptr<LocalMesh> mesh;

  /// The Plans that messages name: those of the latest session that has not ended.
  void showPlans();
};

} // namespace braid
