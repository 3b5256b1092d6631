//===- api/ranks/mesh.cpp - the ranks of a mesh that live in this process ---------------------===//

#include "api/ranks/mesh.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "api/compile/plans.h"
#include "runtime/job/bootstrap/client.h"

#include <thread>

namespace braid {

Result<std::unique_ptr<LocalMesh>> LocalMesh::create(const Backend &backend,
                                                     const ClusterOptions &options) {
  if (!backend.create)
    return unsupported("the ranks of backend '{}' are processes, not threads of one", backend.name);
  std::unique_ptr<Cluster> cluster = BRAID_TRY(backend.create(options));
  return std::unique_ptr<LocalMesh>(new LocalMesh(std::move(cluster)));
}

Result<std::unique_ptr<LocalMesh>> LocalMesh::join(const Backend &backend,
                                                   const ClusterOptions &options,
                                                   std::unique_ptr<Client> client) {
  if (!backend.join)
    return client->fail(
        unsupported("expected a backend whose ranks can be processes, got '{}'", backend.name));
  std::unique_ptr<Cluster> cluster = BRAID_TRY(backend.join(options, std::move(client)));
  return std::unique_ptr<LocalMesh>(new LocalMesh(std::move(cluster)));
}

Status LocalMesh::prepare(const Compiled &compiled, TransferMode transferMode) {
  if (compiled.program->ranks() != ranks())
    return badInput("@{} is for {} ranks, but the mesh has {}", compiled.program->name(),
                    compiled.program->ranks(), ranks());
  if (compiled.isReproducible && !cluster_->device(firstHosted()).compute().isReproducible())
    return badInput("@{} was compiled for reproducible results, but the mesh was not made for "
                    "them: expected ClusterOptions::reproducible",
                    compiled.program->name());
  ownPlans_ = BRAID_TRY(makePlans(compiled));
  return prepare(ownPlans_, transferMode);
}

Status LocalMesh::prepare(llvm::ArrayRef<Plan> plans, TransferMode transferMode) {
  if (static_cast<int64_t>(plans.size()) != ranks())
    return badInput("expected the Plans of {} ranks, got those of {}", ranks(), plans.size());
  BRAID_TRY(checkHosts(*cluster_, plans.front()));
  plans_ = plans;
  cluster_->setPlans(plans_);
  prepared_.resize(static_cast<size_t>(hosted()));
  return onEveryRank([&](int64_t rank) {
    auto prepared = BRAID_TRY(
        braid::prepare(plan(rank), cluster_->device(rank), cluster_->control(rank), transferMode));
    prepared_[static_cast<size_t>(rank - firstHosted())] = std::move(prepared);
    return Status::ok();
  });
}

void LocalMesh::run(llvm::ArrayRef<RunArguments> arguments) {
  // Issuing never blocks, so one thread serves all ranks.
  for (size_t i = 0; i < prepared_.size(); ++i)
    prepared_[i]->run(arguments[i].inputs, arguments[i].outputs);
}

Status LocalMesh::synchronize() {
  return onEveryRank([&](int64_t rank) { return cluster_->device(rank).synchronize(); });
}

Status LocalMesh::commit() {
  return onEveryRank([&](int64_t rank) { return cluster_->control(rank).commit(); });
}

Status LocalMesh::onEveryRank(const std::function<Status(int64_t rank)> &fn) {
  std::vector<Status> statuses(static_cast<size_t>(hosted()));
  auto call = [&](int64_t i) {
    int64_t rank = firstHosted() + i;
    Status &status = statuses[static_cast<size_t>(i)];
    status = fn(rank);
    if (!status.isOk())
      cluster_->control(rank).abort(status);
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < hosted(); ++i) {
    Status started = startThread(threads.emplace_back(), "a rank", [&call, i] { call(i); });
    if (started.isOk())
      continue;
    threads.pop_back();
    cluster_->control(firstHosted()).abort(started);
    statuses[static_cast<size_t>(i)] = std::move(started);
    break;
  }
  call(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    if (!status.isOk())
      return fail(status);
  return Status::ok();
}

Status LocalMesh::fail(const Status &cause) {
  cluster_->control(firstHosted()).abort(cause);
  // After a failure this returns at once, with the one that came first.
  Status first = cluster_->device(firstHosted()).synchronize();
  return first.isOk() ? cause : first;
}

} // namespace braid
