//===- api/ranks/mesh.h - the ranks of a mesh that live in this process -----------------------===//
//
//   auto mesh = LocalMesh::create(backend, {.ranks = 4});
//   (*mesh)->prepare(*compiled);
//   (*mesh)->run(arguments);        // any number of times, with any addresses
//   (*mesh)->synchronize();
//
// These are all ranks, or, after join(), one of them: then every process of the job makes the same
// calls, and what is collective (prepare, synchronize, commit) meets the others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/execute/backend.h"
#include "runtime/execute/executor.h"

#include <functional>

namespace braid {

/// Addresses for one rank and one run, in the order of the program's parameters and results.
struct RunArguments {
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
};

/// Drives ranks of a program. Not thread-safe.
class LocalMesh {
public:
  /// All ranks, as threads of this process.
  static Result<std::unique_ptr<LocalMesh>> create(const Backend &backend,
                                                   const ClusterOptions &options);
  /// The one rank that `client` is. Unsupported if the backend's ranks cannot be processes.
  static Result<std::unique_ptr<LocalMesh>>
  join(const Backend &backend, const ClusterOptions &options, std::unique_ptr<Client> client);

  /// Makes the Plan of every rank and prepares those that live here. While nothing runs; what was
  /// prepared before is gone then.
  /// `compiled` and its source outlive this. Located mistakes are in the source's diags. BadInput
  /// if results are to be reproducible, and ClusterOptions did not say so.
  Status prepare(const Compiled &compiled, TransferMode transferMode = {});
  /// The same with Plans of all ranks, in rank order, which outlive this.
  Status prepare(llvm::ArrayRef<Plan> plans, TransferMode transferMode = {});

  int64_t ranks() const { return cluster_->ranks(); }
  /// The first rank in this process, of hosted() consecutive ones.
  int64_t firstHosted() const { return cluster_->firstHosted(); }
  int64_t hosted() const { return cluster_->hosted(); }
  bool hosts(int64_t rank) const {
    return rank >= firstHosted() && rank < firstHosted() + hosted();
  }
  Cluster &cluster() { return *cluster_; }
  /// The device of a rank in this process.
  Device &device(int64_t rank) { return cluster_->device(rank); }
  ControlPlane &control(int64_t rank) { return cluster_->control(rank); }
  Prepared &prepared(int64_t rank) { return *prepared_[static_cast<size_t>(rank - firstHosted())]; }
  /// The Plan of any rank, once prepare() has been called.
  const Plan &plan(int64_t rank) const { return plans_[static_cast<size_t>(rank)]; }

  /// Issues one run on every rank that lives here, `arguments[rank - firstHosted()]`, and returns
  /// without waiting for it.
  void run(llvm::ArrayRef<RunArguments> arguments);
  /// Blocks until every rank that lives here is done. All ranks return the same first cause of a
  /// failure.
  Status synchronize();
  /// Blocks until all ranks of the job are known to be done: what they computed counts only if this
  /// says Ok, which it does on every rank or on none. See ControlPlane::commit.
  Status commit();

  /// See Cluster::isStuck.
  bool isStuck() const { return cluster_->isStuck(); }
  /// Calls `fn(rank)` on one host thread per rank that lives here and waits for all. A rank that
  /// fails makes the blocked calls of all ranks return; the result is the failure that came first.
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn);
  /// Makes `cause` the failure of all ranks, unless one failed before, and returns the one that
  /// came first.
  Status fail(const Status &cause);

private:
  explicit LocalMesh(std::unique_ptr<Cluster> cluster) : cluster_(std::move(cluster)) {}

  std::vector<Plan> ownPlans_; ///< if they were not given
  llvm::ArrayRef<Plan> plans_;
  std::unique_ptr<Cluster> cluster_; ///< refers to the Plans
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

} // namespace braid
