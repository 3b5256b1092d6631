//===- api/mesh.cpp - all ranks of a mesh in this process -------------------------------------===//

#include "api/mesh.h"

#include "api/plans.h"

#include <fmt/format.h>

#include <mutex>
#include <system_error>
#include <thread>

namespace braid {

Result<std::unique_ptr<LocalMesh>> LocalMesh::create(const Backend &backend,
                                                     const ClusterOptions &options) {
  Result<std::unique_ptr<Cluster>> cluster = backend.create(options);
  if (!cluster)
    return cluster.status();
  return std::unique_ptr<LocalMesh>(new LocalMesh(std::move(*cluster)));
}

Status LocalMesh::prepare(const Compiled &compiled) {
  if (compiled.program->ranks() != ranks())
    return Status(StatusCode::BadInput,
                  fmt::format("@{} is for {} ranks, but the mesh has {}", compiled.program->name(),
                              compiled.program->ranks(), ranks()));
  Result<std::vector<Plan>> plans = makePlans(compiled);
  if (!plans)
    return plans.status();
  plans_ = std::move(*plans);
  prepared_.resize(plans_.size());
  return onEveryRank([&](int64_t rank) {
    auto prepared = braid::prepare(plan(rank), cluster_->device(rank), cluster_->transport(rank));
    if (!prepared)
      return prepared.status();
    prepared_[static_cast<size_t>(rank)] = std::move(*prepared);
    return Status::ok();
  });
}

void LocalMesh::run(llvm::ArrayRef<RunArguments> arguments) {
  // Issuing never blocks, so one thread serves all ranks.
  for (size_t rank = 0; rank < prepared_.size(); ++rank)
    prepared_[rank]->run(arguments[rank].inputs, arguments[rank].outputs);
}

Status LocalMesh::synchronize() {
  return onEveryRank([&](int64_t rank) { return cluster_->device(rank).synchronize(); });
}

Status LocalMesh::onEveryRank(const std::function<Status(int64_t rank)> &fn) {
  std::mutex mutex;
  Status first;
  auto note = [&](int64_t rank, const Status &status) {
    if (status.isOk())
      return;
    cluster_->transport(rank).abort(status);
    std::lock_guard lock(mutex);
    if (first.isOk())
      first = status;
  };
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    try {
      threads.emplace_back([&, rank] { note(rank, fn(rank)); });
    } catch (const std::system_error &error) {
      note(rank, Status(StatusCode::Unsupported,
                        fmt::format("no host thread for rank {}: {}", rank, error.what())));
      break;
    }
  }
  for (std::thread &thread : threads)
    thread.join();
  return first;
}

} // namespace braid
