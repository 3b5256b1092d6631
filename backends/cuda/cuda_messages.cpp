//===- backends/cuda/cuda_messages.cpp - groups and collectives of a GPU ----------------------===//

#include "backends/cuda/cuda_messages.h"

#include "ir/failure.h"

namespace braid {

Status CudaMessages::openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control,
                               TransferMode mode) {
  gpu_.enter();
  return library_->openTeams(teams, control, mode);
}

/// NCCL's copy-engine transfers hung on some machines (with two ranks before 2.31.2, on any). They
/// wait for a memory write that never comes, and no abort ends them, so this process cannot retry
/// in another way. The job ends; streams that hang are left until the process ends.
Status CudaMessages::tryConnections(TransferMode mode) {
  constexpr std::chrono::milliseconds kTrial{10000};
  if (mode.ctas.policy != CtaPolicy::Zero)
    return Status::ok();
  const std::chrono::milliseconds atMost = std::min(kTrial, gpu_.group.timeout() / 2);
  if (drain_(atMost) || gpu_.group.isAborted())
    return Status::ok();
  return unsupported("--cta-policy zero: {}: its copy engines did not finish within {} "
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

/// After a group or a collective, the GPU reports the stream's progress. In a graph, a report takes
/// longer than a message, so there is one only after the last message of a stream, or after the
/// graph (CudaProgress::reportReplay).
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
