//===- tests/support/local_mesh.h - ranks that run one program after another ------------------===//
#pragma once

#include "api/compile/plans.h"
#include "api/ranks/arguments.h"
#include "api/ranks/backends.h"
#include "api/ranks/run.h"
#include "ir/failure.h"

namespace braid {

/// A job with at most one session, which is closed by the next prepare().
class LocalMesh {
public:
  static Result<std::unique_ptr<LocalMesh>> create(const Backend &backend,
                                                   const ClusterOptions &options) {
    return std::make_unique<LocalMesh>(BRAID_TRY(JobState::create(backend, options)));
  }
  explicit LocalMesh(std::unique_ptr<JobState> job) : job_(std::move(job)) {}

  Status prepare(const Compiled &compiled) {
    BRAID_TRY(job_->check(compiled, {}));
    return prepare(BRAID_TRY(makePlans(compiled)));
  }
  Status prepare(std::vector<Plan> plans, TransferMode mode = {}) {
    if (!job_->sessions.empty())
      job_->end(job_->sessions.begin());
    return job_->prepare(std::move(plans), mode).status();
  }

  JobState &job() { return *job_; }
  Cluster &cluster() { return *job_->cluster; }
  int64_t ranks() const { return job_->cluster->ranks(); }
  int64_t firstHosted() const { return job_->cluster->firstHosted(); }
  Device &device(int64_t rank) { return cluster().device(rank); }
  ControlPlane &control(int64_t rank) { return cluster().control(rank); }
  const Plan &plan(int64_t rank) const { return sessionPlans().plans[static_cast<size_t>(rank)]; }
  Prepared &prepared(int64_t rank) {
    return *sessionPlans().prepared[static_cast<size_t>(rank - firstHosted())];
  }

  /// Issues a run on every rank of this process. Arguments are indexed by rank - firstHosted().
  void run(llvm::ArrayRef<RunArguments> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i)
      prepared(firstHosted() + static_cast<int64_t>(i))
          .run(arguments[i].inputs, arguments[i].outputs);
  }
  Status synchronize() { return cluster().synchronize(); }
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn) {
    return cluster().onEveryRank(fn);
  }

private:
  const SessionPlans &sessionPlans() const { return job_->sessions.begin()->second; }

  std::unique_ptr<JobState> job_;
};

/// Runs a program like `braid run`, with ranks that are threads.
inline Result<RunReport> run(const Compiled &compiled, const std::vector<Plan> &plans,
                             const Backend &backend, const RunOptions &options) {
  BRAID_TRY(checkRun(compiled, backend, options, /*areThreads=*/true));
  ClusterOptions cluster = options.cluster;
  cluster.ranks = compiled.program->ranks();
  cluster.reproducible = compiled.isReproducible;
  const auto job = BRAID_TRY(JobState::create(backend, cluster));
  return run(*job, compiled, plans, options);
}
inline Result<RunReport> run(const Compiled &compiled, const Backend &backend,
                             const RunOptions &options) {
  BRAID_TRY(checkRun(compiled, backend, options, /*areThreads=*/true));
  return run(compiled, BRAID_TRY(makePlans(compiled)), backend, options);
}

} // namespace braid
