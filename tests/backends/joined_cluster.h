//===- tests/backends/joined_cluster.h - ranks that join a job, all in this process -----------===//
//
// These ranks run the same code as ranks in separate processes: they connect through a socket, and
// each rank maps the memory of the others. The only difference is that they share a process.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// Creates a job of options.ranks ranks, all of which have joined. Returns Unsupported if ranks of
/// the backend cannot join a job.
Result<std::unique_ptr<Cluster>> joinAll(const Backend &backend, const ClusterOptions &options);

} // namespace braid::test
