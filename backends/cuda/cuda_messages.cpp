//===- backends/cuda/cuda_messages.cpp - groups and collectives of a GPU ----------------------===//

#include "backends/cuda/cuda_messages.h"

#include "ir/failure.h"

namespace braid {

Status CudaMessages::openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control,
                               TransferMode mode) {
  gpu_.enter();
  return library_->openTeams(teams, control, mode);
}

/// Copy engines of NCCL hung on some machines (two ranks before 2.31.2, on any). They wait for
/// memory that nobody will write then, which no abort ends: so there is no second try by another
/// way in this process. The job ends; streams that do not are left to the end of the process.
Status CudaMessages::tryConnections(TransferMode mode) {
  constexpr std::chrono::milliseconds kTrial{10000};
  if (mode.ctas.policy != CtaPolicy::Zero)
    return Status::ok();
  const std::chrono::milliseconds atMost = std::min(kTrial, gpu_.group.timeout() / 2);
  if (drain_(atMost) || gpu_.group.isAborted())
    return Status::ok();
  return unsupported("--cta-policy zero: {}: what its copy engines were given is not over after {} "
                     "ms",
                     library_->describe(mode), atMost.count());
}

void CudaMessages::group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  finish(stream, tag, library_->group(streams_.of(stream), messages, progress_.of(tag.plan).ctas));
}

void CudaMessages::collective(uint32_t stream, Tag tag, const CollectiveArgs &args) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  finish(stream, tag, library_->collective(streams_.of(stream), args, progress_.of(tag.plan).ctas));
}

/// Behind a group or a collective the GPU says how far the stream is. In a graph that takes longer
/// than a message: only behind the last one of a stream, or behind the graph
/// (CudaProgress::reportReplay).
void CudaMessages::finish(uint32_t stream, Tag tag, const Status &status) {
  if (!status.isOk())
    return gpu_.check(status);
  if (streams_.isCapturing()) {
    const RegisteredPlan *plan = progress_.find(tag.plan);
    if (!plan || plan->isReportedBehind() || plan->steps.commands(stream).back() != tag.command)
      return;
  }
  progress_.reportStep(stream, tag);
}

} // namespace braid
