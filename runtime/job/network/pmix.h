//===- runtime/job/network/pmix.h - publishes the address of the hosts' store -----------------===//
//
// mpirun, prterun and srun --mpi=pmix run PMIx servers, which processes access through
// libpmix.so.2. Rank 0 puts and commits a text; a rank that gets the text waits until it has been
// committed. There is no other synchronization, in particular no fence.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

/// Every rank of the job has a Pmix, and destroys it before the process exits. Calls block until
/// the deadline at most, plus up to three seconds for the answer to a pending request, and then
/// return TimedOut. They return PeerFailed if the launcher is gone.
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
  /// Blocks until rank 0 has put its text, and returns the text. Returns BadInput if the value is
  /// not a text.
  Result<std::string> get(Deadline deadline);

private:
  struct Library;
  Pmix(std::shared_ptr<Library> library, std::string key)
      : library_(std::move(library)), key_(std::move(key)) {}

  std::shared_ptr<Library> library_; ///< shared with calls that have not returned
  std::string key_;
};

} // namespace braid
