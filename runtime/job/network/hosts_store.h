//===- runtime/job/network/hosts_store.h - finds the store that a job's hosts share -----------===//
//
//   BRAID_RENDEZVOUS=tcp://host:port   host 0 starts a store at this address
//   torchrun                           the first agent runs a store
//   mpirun, srun --mpi=pmix            host 0 starts a store at a free port and publishes its
//                                      address through PMIx
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"
#include "runtime/job/bootstrap/store.h"

namespace braid {

/// A rank's access to the store. Not thread-safe.
class HostsStore {
public:
  /// Every rank of a multi-host job must keep its HostsStore until it leaves the job, because Open
  /// MPI terminates a job in which only some ranks have initialized PMIx. Blocks at most until the
  /// deadline. Returns Unsupported, naming BRAID_RENDEZVOUS, if the launcher provides no store.
  static Result<std::unique_ptr<HostsStore>>
  open(const Place &place, const Environment &environment, Deadline deadline);
  virtual ~HostsStore() = default;
  /// Connects to the store. Must be called once, by the first rank of each host. Host 0 starts the
  /// store if there is none; the other hosts wait for it until the deadline.
  virtual Result<std::unique_ptr<Store>> connect(Deadline deadline) = 0;
};

} // namespace braid
