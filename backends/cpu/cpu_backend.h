//===- backends/cpu/cpu_backend.h - ranks as threads of one process, or as processes ----------===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "backends/cpu/queue/picker.h"
#include "runtime/execute/backend.h"

namespace braid {

/// Adds "cpu". In a process that has all ranks, every rank is driven by a host thread of the
/// caller's; a process that joins has one rank, driven by one thread. Each hardware queue of a rank
/// is a thread that runs the commands of its streams in order; or, if a schedule seed is given, all
/// commands of all ranks run one at a time, in an order drawn from the seed, once every rank's host
/// thread is blocked in synchronize() or allGather(). synchronize() is then collective: every rank
/// calls it equally often, and a deadlock is reported at once.
///
/// Issuing allocates host memory once in some hundreds of commands, and for each group and
/// collective. Destroying the cluster drops
/// what has not been synchronized, and aborts a job in which somebody may wait for that.
///
/// A rank that has joined may be left, after an abort, with a command that never ends. Its cluster
/// then isStuck(), and keeps all that the command might use even when it is destroyed.
///
/// `observe`, if given, makes an observer for each rank.
void registerCpuBackend(BackendRegistry &registry, ObserverFactory observe = {});

/// The same backend as with a schedule seed, with an order that `picker` chooses instead;
/// options.scheduleSeed is not looked at. For exploring interleavings.
Result<std::unique_ptr<Cluster>> createCpuCluster(const ClusterOptions &options, Picker picker);
/// Synchronizes all ranks of such a cluster from one thread, which has issued for all of them. The
/// effect is that of synchronize() by every rank's thread, without switching between threads.
Status synchronizeAll(Cluster &cluster);

} // namespace braid
