//===- backends/cuda/cuda_messages.cpp - groups and collectives on a GPU ----------------------===//

#include "backends/cuda/cuda_messages.h"

namespace braid {

Status CudaMessages::openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control) {
  gpu_.enter();
  return library_->openTeams(teams, control);
}

void CudaMessages::group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  finish(stream, tag, library_->group(streams_.of(stream), messages));
}

void CudaMessages::collective(uint32_t stream, Tag tag, const CollectiveArgs &args) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  finish(stream, tag, library_->collective(streams_.of(stream), args));
}

/// After a group or a collective, the GPU reports the stream's progress. In a graph, a report would
/// take longer than a message, so only each stream's last message is reported, or only the replay
/// as a whole (CudaProgress::reportReplay()).
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
