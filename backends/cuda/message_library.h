//===- backends/cuda/message_library.h - what sends messages between GPUs ---------------------===//
#pragma once

#include "backends/cuda/memory/symmetric_memory.h"
#include "runtime/execute/messages.h"

#include <cuda_runtime.h>

#include <chrono>
#include <memory>

namespace braid {

/// A library that moves data on a GPU's streams, as Messages asks. Functions are called by the
/// rank's host thread, unless they say something else.
class MessageLibrary {
public:
  virtual ~MessageLibrary() = default;
  /// As Messages::openTeams and describe.
  virtual Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control,
                           TransferMode mode) = 0;
  virtual std::string describe(TransferMode mode) = 0;
  /// As Messages::group and collective, on a stream that may be being captured, by what openTeams()
  /// has made for these `ctas`. A failure is the job's.
  virtual Status group(cudaStream_t stream, llvm::ArrayRef<MessageArgs> messages, Ctas ctas) = 0;
  virtual Status collective(cudaStream_t stream, const CollectiveArgs &args, Ctas ctas) = 0;

  /// Memory of this library: Nccl, which all ranks reach, or NcclRegistered. Collective; blocks.
  /// Goes before close().
  virtual Result<std::unique_ptr<SymmetricMemory>> symmetricMemory(MemoryFrom from,
                                                                   ControlPlane &control) = 0;

  /// An error that happened in the background, or Ok. Any thread may call it.
  virtual Status error() = 0;
  /// Ends whatever is in flight, soon. Returns at once. Any thread, any number of times.
  virtual void abort() = 0;
  /// Gives everything back: nothing is in flight, and no graph holds what was captured. Collective,
  /// unless aborted. TimedOut if that takes longer; what is left then stays to the process's end.
  virtual Status close(std::chrono::milliseconds atMost) = 0;
};

} // namespace braid
