//===- backends/cpu/cpu_backend.h - the CPU backend: ranks as threads or processes ------------===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "backends/cpu/queue/picker.h"
#include "runtime/execute/backend.h"

namespace braid {

/// Registers "cpu". In a process that holds all ranks, the caller drives each rank from a host
/// thread; a process that joins a job holds one rank, driven by one thread. Each hardware queue of
/// a rank is a thread that runs the commands of its streams in order. With a schedule seed, all
/// commands of all ranks instead run one at a time, in an order drawn from the seed, once every
/// rank's host thread is in synchronize(). synchronize() is then collective: every rank must call
/// it equally often, and a deadlock is reported at once.
///
/// Issuing allocates host memory once per several hundred commands, and for each group and
/// collective. Destroying the cluster drops commands that have not been synchronized, and aborts
/// the job if other ranks may wait for them.
///
/// After an abort, a rank that has joined may be left with a command that never completes. Its
/// cluster then reports isStuck(), and keeps all memory that the command may use even after its
/// destruction.
///
/// `observe`, if set, creates an observer for each rank.
void registerCpuBackend(BackendRegistry &registry, ObserverFactory observe = {});

/// Creates the same backend as a schedule seed would, with the order chosen by `picker`;
/// options.scheduleSeed is ignored. For exploring interleavings.
Result<std::unique_ptr<Cluster>> createCpuCluster(const ClusterOptions &options, Picker picker);

} // namespace braid
