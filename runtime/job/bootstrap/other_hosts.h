//===- runtime/job/bootstrap/other_hosts.h - connects the hosts of a job ----------------------===//
//
// Each host of a job has a rendezvous and a job memory. One thread on each host exchanges the
// contents of its job memory with the other hosts through a shared store. The keys in the store:
//
//  shape      the number of hosts and ranks, written by the first host to arrive
//  host<K>    the heartbeat of host K, several times a second: whether the host has left, and the
//             state of its ranks. Read by all other hosts.
//  parts<K>.0 the parts of host K's ranks in the last even-numbered all-gather
//  parts<K>.1 the same for the last odd-numbered all-gather. A host writes its parts for all-gather
//             N only after all hosts have read those for all-gather N - 2.
//  round<N>   the outcome of all-gather N, decided by putIfAbsent(): host 0 writes "done" once it
//             has read all parts; a host that fails writes the cause. A step is therefore committed
//             on all hosts or, after a failure, on none; all see the same first cause.
//
// A host whose heartbeat does not change within the time limit is considered lost. A host that
// cannot reach the store for that long decides on its own to abort. No protocol can rule out one
// case: if the network fails after a step has been decided, disconnected hosts report a failure for
// a run that the others have committed.
//
// A store may serve several consecutive jobs with the same name. Each host numbers these jobs in
// the order in which it participates in them.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/store.h"

#include <memory>

namespace braid {

struct OtherHostsOptions {
  std::string job; ///< name of the job
  /// The time limit for all hosts to join.
  std::chrono::milliseconds joinTimeout{60000};
  /// A host that sends no heartbeat for this long is considered lost.
  std::chrono::milliseconds silence{60000};
};

class OtherHosts {
public:
  /// Starts the thread. `memory` must be this host's job memory, and must outlive this object.
  static Result<std::unique_ptr<OtherHosts>> start(std::unique_ptr<Store> store, JobMemory &memory,
                                                   OtherHostsOptions options);
  /// Announces that this host has left. Host 0 also waits for the others to leave. Blocks for at
  /// most a second.
  virtual ~OtherHosts() = default;
};

} // namespace braid
