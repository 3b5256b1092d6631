//===- backends/cpu/cpu_backend.h - ranks as threads of one process ---------------------------===//
#pragma once

#include "backends/cpu/picker.h"
#include "runtime/backend.h"

namespace braid {

/// Adds "cpu". Every rank is driven by a host thread of the caller's. Each hardware queue of a rank
/// is a thread that runs the commands of its streams in order; or, if a schedule seed is given, all
/// commands of all ranks run one at a time, in an order drawn from the seed, once every rank's host
/// thread is blocked in synchronize() or allGather(). synchronize() is then collective: every rank
/// calls it equally often, and a deadlock is reported at once.
///
/// Issuing allocates host memory once in some hundreds of commands. Destroying the cluster drops
/// what has not been synchronized.
void registerCpuBackend(BackendRegistry &registry);

/// The same backend as with a schedule seed, with an order that `picker` chooses instead;
/// options.scheduleSeed is not looked at. For exploring interleavings.
Result<std::unique_ptr<Cluster>> createCpuCluster(const ClusterOptions &options, Picker picker);

} // namespace braid
