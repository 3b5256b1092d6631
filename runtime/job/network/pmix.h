//===- runtime/job/network/pmix.h - tells all ranks where the hosts' store is -----------------===//
//
// mpirun, prterun and srun --mpi=pmix run PMIx servers, to which processes speak by a library,
// libpmix.so.2. Rank 0 puts a text and commits it; a rank that asks for it is answered when it is
// there. No rank waits for others than that: there is no fence.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

class PmixLibrary;

/// Every rank of the job has one, and ends it before the process ends. Calls block at most until
/// the deadline, and three seconds longer to hear the answer to what was asked: TimedOut then.
/// PeerFailed if the launcher is gone.
class Pmix {
public:
  /// Unsupported where there is no library (BRAID_PMIX_LIBRARY names it), or no server for it.
  static Result<std::unique_ptr<Pmix>> open(const Place &place, const Environment &environment,
                                            Deadline deadline);
  /// Finalizes; blocks for the server's answer, but not for long.
  ~Pmix();
  Pmix(const Pmix &) = delete;
  /// Rank 0, once.
  Status put(const std::string &text, Deadline deadline);
  /// Waits until rank 0 has put it. BadInput for anything but a text.
  Result<std::string> get(Deadline deadline);

private:
  Pmix(std::shared_ptr<PmixLibrary> library, std::string key)
      : library_(std::move(library)), key_(std::move(key)) {}

  std::shared_ptr<PmixLibrary> library_; ///< shared with calls that never returned
  std::string key_;
};

} // namespace braid
