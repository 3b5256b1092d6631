//===- tests/backends/joined_cluster.h - ranks that join a job, all in this process -----------===//
//
// These ranks run the same code as ranks in separate processes: they meet through a socket, and
// each maps the memory of the others. They only share a process.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// Creates a job of options.ranks ranks, all of which have joined. Returns Unsupported if the
/// backend's ranks cannot join a job.
Result<std::unique_ptr<Cluster>> joinAll(const Backend &backend, const ClusterOptions &options);

} // namespace braid::test
