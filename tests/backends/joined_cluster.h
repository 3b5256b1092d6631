//===- tests/backends/joined_cluster.h - ranks that join a job, all in this process -----------===//
//
// A rank in a process of its own and one that joined from here run the same code: they meet through
// a socket, and each maps the memory of the others by itself. Only the processes are missing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// A job of options.ranks ranks that have all joined. Unsupported if the backend cannot do that.
Result<std::unique_ptr<Cluster>> joinAll(const Backend &backend, const ClusterOptions &options);

} // namespace braid::test
