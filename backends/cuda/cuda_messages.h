//===- backends/cuda/cuda_messages.h - groups and collectives on a GPU ------------------------===//
#pragma once

#include "backends/cuda/cuda_trace.h"
#include "backends/nccl/nccl_messages.h"

namespace braid {

/// Groups and collectives that NCCL executes on the GPU's streams.
class CudaMessages final : public Messages {
public:
  CudaMessages(const Gpu &gpu, const CudaStreams &streams, CudaProgress &progress,
               CudaTracer &tracer, std::unique_ptr<nccl::NcclMessages> &library)
      : gpu_(gpu), streams_(streams), progress_(progress), tracer_(tracer), library_(library) {}

  Status openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) override;
  std::string describe() const override { return library_->describe(); }
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override;
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override;

private:
  void finish(uint32_t stream, Tag tag, const Status &status);

  const Gpu &gpu_;
  const CudaStreams &streams_;
  CudaProgress &progress_;
  CudaTracer &tracer_;
  const std::unique_ptr<nccl::NcclMessages> &library_; ///< owned by the device
};

} // namespace braid
