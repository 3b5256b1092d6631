//===- api/mesh.h - all ranks of a mesh in this process ---------------------------------------===//
//
//   auto mesh = LocalMesh::create(backend, {.ranks = 4});
//   (*mesh)->prepare(*compiled);
//   (*mesh)->run(arguments);        // any number of times, with any addresses
//   (*mesh)->synchronize();
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/compile.h"
#include "runtime/backend.h"
#include "runtime/executor.h"

#include <functional>

namespace braid {

/// Addresses for one rank and one run, in the order of the program's parameters and results.
struct RunArguments {
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
};

/// Drives every rank of a program. Not thread-safe.
class LocalMesh {
public:
  static Result<std::unique_ptr<LocalMesh>> create(const Backend &backend,
                                                   const ClusterOptions &options);

  /// Makes the Plan of every rank and prepares it. Once, before anything runs. `compiled` and its
  /// source outlive this. Located mistakes are in the source's diags.
  Status prepare(const Compiled &compiled);

  int64_t ranks() const { return cluster_->ranks(); }
  Device &device(int64_t rank) { return cluster_->device(rank); }
  const Plan &plan(int64_t rank) const { return plans_[static_cast<size_t>(rank)]; }
  Prepared &prepared(int64_t rank) { return *prepared_[static_cast<size_t>(rank)]; }

  /// Issues one run on every rank, `arguments[rank]`, and returns without waiting for it.
  void run(llvm::ArrayRef<RunArguments> arguments);
  /// Blocks until every rank is done. All ranks return the same first cause of a failure.
  Status synchronize();

  /// Calls `fn(rank)` on one host thread per rank and waits for all. A rank that fails makes the
  /// others' blocked calls return; the result is the failure that came first.
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn);

private:
  explicit LocalMesh(std::unique_ptr<Cluster> cluster) : cluster_(std::move(cluster)) {}

  std::unique_ptr<Cluster> cluster_;
  std::vector<Plan> plans_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

} // namespace braid
