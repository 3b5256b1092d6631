//===- backends/nccl/nccl_messages.h - messages by NCCL ---------------------------------------===//
#pragma once

#include "backends/nccl/communicator.h"
#include "runtime/execute/messages.h"

#include <map>
#include <memory>
#include <mutex>

namespace braid::nccl {

/// Messages of one rank by NCCL. The rank's host thread calls the functions, unless noted
/// otherwise.
///
/// NCCL's communicators are not thread-safe, except for abort. Even a query for errors completes a
/// group that has ended, and ranks hung when two threads made such queries at once. So calls
/// exclude each other, and the watchdog does not wait for a call of the host thread.
///
/// There is one communicator for each team of this rank; groups use that of all ranks.
class NcclMessages {
public:
  /// Loads the library when teams are first opened. The library must outlive this object.
  using Loader = std::function<Result<const Library *>()>;
  NcclMessages(Loader load, int64_t rank, Patience patience);

  /// Implement Messages::openTeams and describe.
  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control);
  std::string describe() const;
  /// Implement Messages::group and collective on a stream, which may be in capture. A failure fails
  /// the job.
  Status group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages);
  Status collective(cudaStream_t stream, const CollectiveArgs &args);

  /// Returns an error that occurred in the background, or Ok. Callable from any thread.
  Status error();
  /// Makes everything in flight end soon, and returns at once. Callable from any thread,
  /// repeatedly.
  void abort();
  /// Releases all resources. Requires that nothing is in flight, and that no graph holds captured
  /// operations. Collective, unless aborted. Fails with TimedOut after `atMost`; the remaining
  /// resources then stay until the process ends.
  Status close(std::chrono::milliseconds atMost);

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
