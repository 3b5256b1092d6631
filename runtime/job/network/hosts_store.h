//===- runtime/job/network/hosts_store.h - the store that the hosts of a job have in common ---===//
//
//   BRAID_RENDEZVOUS=tcp://host:port   host 0 has a store there
//   torchrun                           its first agent has one
//   mpirun, srun --mpi=pmix            host 0 has one at a port of one of its addresses, which the
//                                      others are told by PMIx
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/pmix.h"
#include "runtime/job/network/store_server.h"

namespace braid {

/// One rank's way to the store. Calls are made by one thread.
class HostsStore {
public:
  /// Every rank of a job on several hosts has one as long as it takes part: Open MPI ends a job of
  /// which only some ranks have been PMIx's. Blocks at most until the deadline. Unsupported, naming
  /// BRAID_RENDEZVOUS, where the launcher of `place` has no store.
  static Result<std::unique_ptr<HostsStore>>
  open(const Place &place, const Environment &environment, Deadline deadline);
  /// The name of the job, the same on all hosts.
  const std::string &job() const { return place_.job; }
  /// The first rank of each host, once. On host 0 the store then is there for the others, which
  /// wait for it until the deadline.
  Result<std::unique_ptr<Store>> connect(Deadline deadline);

private:
  HostsStore(Place place, Environment environment)
      : place_(std::move(place)), environment_(std::move(environment)) {}
  Result<std::unique_ptr<Store>> connectToTorchrun(Deadline deadline);
  Result<TcpAddress> startServer(Deadline deadline);
  Result<TcpAddress> findServer(Deadline deadline);

  const Place place_;
  const Environment environment_;
  std::optional<TcpAddress> given_; ///< by BRAID_RENDEZVOUS
  std::unique_ptr<Pmix> pmix_;
  std::unique_ptr<StoreServer> server_;
};

} // namespace braid
