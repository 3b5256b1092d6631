//===- backends/nccl/nccl_messages.h - messages by NCCL ---------------------------------------===//
#pragma once

#include "backends/cuda/message_library.h"
#include "backends/nccl/communicator.h"

#include <map>
#include <memory>
#include <mutex>

namespace braid::nccl {

/// NCCL's communicators are not thread-safe, except for abort. Even a query for errors completes a
/// group that has ended, and ranks hung when two threads made such queries at once. So calls
/// exclude each other, and the watchdog does not wait for a call of the host thread.
///
/// There is one communicator for each team of this rank; groups use that of all ranks.
class NcclMessages final : public MessageLibrary {
public:
  /// Loads the library when teams are first opened. The library must outlive this object.
  using Loader = std::function<Result<const Library *>()>;
  NcclMessages(Loader load, int64_t rank, Patience patience);

  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) override;
  std::string describe() override;
  Status group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages) override;
  Status collective(cudaStream_t stream, const CollectiveArgs &args) override;
  Status error() override;
  void abort() override;
  Status close(std::chrono::milliseconds atMost) override;

private:
  Status load(ControlPlane &control);
  Status open(const Team &team, ControlPlane &control);
  Result<const Communicator *> of(llvm::ArrayRef<int64_t> team) const;
  Status exchange(const Communicator &communicator, cudaStream_t stream,
                  const CollectiveArgs &args) const;

  /// The state that an abort uses. It may outlive the NcclMessages.
  struct Shared {
    /// Held during calls, including queries for errors, which change the communicator.
    std::timed_mutex calls;
    /// Null if this rank is not a member.
    std::map<Team, std::unique_ptr<Communicator>> communicators;
    std::atomic<bool> isAborted{false}, isAbortDone{false};
  };

  const Loader load_;
  const Library *library_ = nullptr; ///< null until the library is loaded
  const int64_t rank_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  Patience patience_;
  Team all_; ///< all ranks of the mesh
};

} // namespace braid::nccl
