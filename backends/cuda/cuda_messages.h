//===- backends/cuda/cuda_messages.h - groups and collectives of a GPU ------------------------===//
#pragma once

#include "backends/cuda/cuda_trace.h"
#include "backends/cuda/message_library.h"

namespace braid {

/// Groups and collectives executed by a library on the GPU's streams.
class CudaMessages final : public Messages {
public:
  /// Blocks until the streams are empty, for at most the given time. Returns false if they are not.
  using Drain = std::function<bool(std::chrono::milliseconds)>;
  CudaMessages(const Gpu &gpu, const CudaStreams &streams, CudaProgress &progress,
               CudaTracer &tracer, std::unique_ptr<MessageLibrary> &library, Drain drain)
      : gpu_(gpu), streams_(streams), progress_(progress), tracer_(tracer), library_(library),
        drain_(std::move(drain)) {}

  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control, TransferMode mode) override;
  Status tryConnections(TransferMode mode) override;
  std::string describe(TransferMode mode) const override { return library_->describe(mode); }
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override;
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override;

private:
  void finish(uint32_t stream, Tag tag, const Status &status);

  const Gpu &gpu_;
  const CudaStreams &streams_;
  CudaProgress &progress_;
  CudaTracer &tracer_;
  const std::unique_ptr<MessageLibrary> &library_; ///< owned by the device
  const Drain drain_;
};

} // namespace braid
