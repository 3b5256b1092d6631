//===- runtime/job/network/pmix_store.h - the key-value space of PMIx -------------------------===//
//
// mpirun, prterun and srun --mpi=pmix run PMIx servers, to which processes speak by a library,
// libpmix.so.2. Rank 0 puts and commits; whoever asks for what rank 0 has is answered when it has
// come. No rank waits for others than that: there is no fence.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/launcher_store.h"

namespace braid {

class PmixLibrary;

/// Its calls may take three seconds longer than their deadline, to hear the answer to what was
/// asked.
class PmixStore : public LauncherStore {
public:
  /// Unsupported where there is no library (BRAID_PMIX_LIBRARY names it), or no server for it.
  static Result<std::unique_ptr<PmixStore>> open(const Place &place, const Environment &environment,
                                                 Deadline deadline);
  /// Finalizes; blocks for the server's answer, but not for long.
  ~PmixStore() override;
  Status put(const std::string &name, const std::string &value, Deadline deadline) override;
  Result<std::string> get(const std::string &name, Deadline deadline) override;

private:
  PmixStore(std::shared_ptr<PmixLibrary> library, std::string job)
      : library_(std::move(library)), job_(std::move(job)) {}

  std::shared_ptr<PmixLibrary> library_; ///< shared with calls that never returned
  std::string job_;
};

} // namespace braid
