//===- backends/cpu/cpu_backend.h - the CPU backend: ranks as threads or processes ------------===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "backends/cpu/queue/picker.h"
#include "runtime/execute/backend.h"

namespace braid {

/// Registers the backend "cpu". If one process runs all ranks, the caller uses one host thread per
/// rank; a process that joins a job runs a single rank, driven by one thread. Each hardware queue
/// of a rank is a thread that runs the commands of the queue's streams in order. With a schedule
/// seed, the commands of all ranks instead run one at a time, in an order derived from the seed,
/// once every rank's host thread has entered synchronize(). synchronize() is then collective: every
/// rank must call it the same number of times, and a deadlock is reported immediately.
///
/// Issuing commands allocates host memory once every few hundred commands, and once per group or
/// collective. Destroying the cluster drops unfinished commands and, if there are any, aborts the
/// job, because other ranks may be waiting for them.
///
/// If ranks are processes, a command may never complete after an abort. In this case, the rank's
/// cluster reports isStuck() and, even after its destruction, keeps all memory that the command may
/// use.
///
/// `observe`, if set, is called once per rank to create the rank's observer.
void registerCpuBackend(BackendRegistry &registry, ObserverFactory observe = {});

/// Creates a cluster that runs commands one at a time, as with a schedule seed, but in the order
/// that `picker` chooses. Ignores options.scheduleSeed. Used to explore interleavings.
Result<std::unique_ptr<Cluster>> createCpuCluster(const ClusterOptions &options, Picker picker);

} // namespace braid
