//===- backends/nccl/nccl_messages.h - messages through NCCL ----------------------------------===//
#pragma once

#include "backends/nccl/communicator.h"
#include "runtime/execute/messages.h"

#include <map>
#include <memory>
#include <mutex>

namespace braid::nccl {

/// One rank's messages through NCCL. Call from the rank's host thread, unless noted otherwise.
///
/// NCCL communicators are not thread-safe, except for aborts. Even an error query may complete a
/// group: ranks hung when two threads queried concurrently. A mutex therefore serializes all calls.
/// The watchdog does not wait for the mutex, but skips its query while another call is in progress.
///
/// There is one communicator per team of this rank; groups use the communicator of all ranks.
class NcclMessages {
public:
  /// Called when teams are first opened. The returned library must outlive this object.
  using Loader = std::function<Result<const Library *>()>;
  NcclMessages(Loader load, int64_t rank, Patience patience);

  /// Implement Messages::openTeams and describe.
  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control);
  std::string describe() const;
  /// Implement Messages::group and collective on `stream`, which may be capturing. On failure, the
  /// caller aborts the job.
  Status group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages);
  Status collective(cudaStream_t stream, const CollectiveArgs &args);

  /// Returns an asynchronous error, or Ok. Callable from any thread.
  Status error();
  /// Starts aborting all operations in flight, and returns immediately. Callable repeatedly, from
  /// any thread.
  void abort();
  /// Releases all resources. No operations may be in flight, and no graph may contain captured
  /// operations. Collective, unless aborted. Fails with TimedOut after `atMost`; the remaining
  /// resources are then freed when the process ends.
  Status close(std::chrono::milliseconds atMost);

private:
  Status load(ControlPlane &control);
  Status open(const Team &team, ControlPlane &control);
  Result<const Communicator *> of(llvm::ArrayRef<int64_t> team) const;
  Status exchange(const Communicator &communicator, cudaStream_t stream,
                  const CollectiveArgs &args) const;

  /// The state used by abort(). May outlive the NcclMessages.
  struct Shared {
    /// Held during calls, including error queries, which modify the communicator.
    std::timed_mutex calls;
    /// The communicator is null if this rank is not a member of the team.
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
