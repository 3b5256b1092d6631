//===- backends/cuda/message_library.h - libraries for messages between GPUs ------------------===//
#pragma once

#include "runtime/execute/messages.h"

#include <cuda_runtime.h>

#include <chrono>
#include <memory>

namespace braid {

/// A library that executes Messages on a GPU's streams. The rank's host thread calls its functions,
/// unless noted otherwise.
class MessageLibrary {
public:
  virtual ~MessageLibrary() = default;
  /// Implement Messages::openTeams and describe.
  virtual Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) = 0;
  virtual std::string describe() = 0;
  /// Implement Messages::group and collective on a stream, which may be in capture. A failure fails
  /// the job.
  virtual Status group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages) = 0;
  virtual Status collective(cudaStream_t stream, const CollectiveArgs &args) = 0;

  /// Returns an error that occurred in the background, or Ok. Callable from any thread.
  virtual Status error() = 0;
  /// Makes everything in flight end soon, and returns at once. Callable from any thread,
  /// repeatedly.
  virtual void abort() = 0;
  /// Releases all resources. Requires that nothing is in flight, and that no graph holds captured
  /// operations. Collective, unless aborted. Fails with TimedOut after `atMost`; the remaining
  /// resources then stay until the process ends.
  virtual Status close(std::chrono::milliseconds atMost) = 0;
};

} // namespace braid
