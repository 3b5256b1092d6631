//===- runtime/job/network/pmix.h - publishes the address of the hosts' store -----------------===//
//
// mpirun, prterun and srun --mpi=pmix run PMIx servers, which processes access through
// libpmix.so.2. Rank 0 puts and commits a string; a rank that gets the string blocks until it has
// been committed. There is no other synchronization, in particular no fence.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

/// Every rank of the job must create a Pmix, and destroy it before the process exits. Calls return
/// TimedOut at the deadline, or up to three seconds later if a request is pending, and PeerFailed
/// if the launcher is gone.
class Pmix {
public:
  /// Returns Unsupported if the library (named by BRAID_PMIX_LIBRARY) or its server is missing.
  static Result<std::unique_ptr<Pmix>> open(const Place &place, const Environment &environment,
                                            Deadline deadline);
  /// Finalizes PMIx. Blocks briefly for the server's answer.
  ~Pmix();
  Pmix(const Pmix &) = delete;
  /// Publishes `text`. Called once, by rank 0.
  Status put(const std::string &text, Deadline deadline);
  /// Blocks until rank 0 has put a string, and returns it. Returns BadInput for any other value.
  Result<std::string> get(Deadline deadline);

private:
  struct Library;
  Pmix(std::shared_ptr<Library> library, std::string key)
      : library_(std::move(library)), key_(std::move(key)) {}

  std::shared_ptr<Library> library_; ///< shared with calls that have not returned
  std::string key_;
};

} // namespace braid
