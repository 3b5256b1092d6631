//===- backends/cuda/cuda_messages.cpp - groups and collectives of a GPU ----------------------===//

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/issuing.h"
#include "ir/failure.h"
#include "runtime/warn.h"

#include <utility>

namespace braid {

Status CudaDevice::openTeams(llvm::ArrayRef<Team> teams, ControlPlane &control, TransferMode mode) {
  enter();
  return messages_->openTeams(teams, control, mode);
}

/// Copy engines of NCCL hung on some machines (two ranks before 2.31.2, on any). They wait for
/// memory that nobody will write then, which no abort ends: so there is no second try by another
/// way in this process. The job ends; streams that do not are left to the end of the process.
Status CudaDevice::tryConnections(TransferMode mode) {
  constexpr std::chrono::milliseconds kTrial{10000};
  if (mode.ctas.policy != CtaPolicy::Zero)
    return Status::ok();
  const std::chrono::milliseconds atMost = std::min(kTrial, group_.timeout() / 2);
  if (drain(atMost) || group_.isAborted())
    return Status::ok();
  return unsupported("--cta-policy zero: {}: what its copy engines were given is not over after {} "
                     "ms",
                     messages_->describe(mode), atMost.count());
}

std::string CudaDevice::describe(TransferMode mode) const { return messages_->describe(mode); }

Result<std::unique_ptr<SymmetricMemory>> CudaDevice::memoryOfMessages(MemoryFrom from,
                                                                      ControlPlane &control) {
  if (!messages_)
    return unsupported("memory '{}': this rank has no library for messages", name(from));
  return messages_->symmetricMemory(from, control);
}

void CudaDevice::group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  finishMessages(stream, tag,
                 messages_->group(streamOf(stream), messages, timetableOf(tag.plan).ctas));
}

void CudaDevice::collective(uint32_t stream, Tag tag, const CollectiveArgs &args) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  finishMessages(stream, tag,
                 messages_->collective(streamOf(stream), args, timetableOf(tag.plan).ctas));
}

/// Behind a group or a collective the GPU says how far the stream is. In a graph that takes longer
/// than a message: only behind the last one of a stream, or behind the graph (reportReplay()).
void CudaDevice::finishMessages(uint32_t stream, Tag tag, const Status &status) {
  if (!status.isOk())
    return group_.abort(status.annotated(fmt::format("rank {}", options_.rank)));
  if (capture_) {
    const Timetable *timetable = findTimetable(tag.plan);
    if (!timetable || isReportedBehind(*timetable) ||
        timetable->steps.commands(stream).back() != tag.command)
      return;
  }
  reportStep(stream, tag);
}

/// On a stream of its own, which waits for the replay: on that of the replays the write would hold
/// up the next one for 3.4 us.
void CudaDevice::reportReplay(const Timetable &timetable, uint32_t run) {
  if (timetable.steps.lastWait() == kNone)
    return;
  const Tag tag = {timetable.plan, timetable.steps.lastWait(), run};
  putBehind(streams_[0], reports_);
  report(reports_, stepOf(0, tag), nextNumber(0, tag));
  isReportedBeside_ = true;
}

/// Orders the stream's own reports after those that another stream makes for it: numbers only grow.
void CudaDevice::awaitReports(uint32_t stream) {
  if (stream == 0 && std::exchange(isReportedBeside_, false))
    putBehind(reports_, streams_[0]);
}

void CudaDevice::reportStep(uint32_t stream, Tag tag) {
  report(streamOf(stream), stepOf(stream, tag), number(stream, tag));
}

void CudaDevice::report(cudaStream_t stream, uint32_t *word, uint32_t value) {
  CUstreamBatchMemOpParams operation = writeOf(word, value);
  check(driver_->streamBatchMemOp(stream, 1, &operation, 0), "cuStreamBatchMemOp");
}

void CudaDevice::closeMessages() {
  if (!messages_)
    return;
  enter();
  if (group_.isAborted())
    messages_->abort();
  if (!isAbandoned_)
    destroyGraphs();
  if (callersGraphs() > 0) // the library would wait for their end before it closes
    messages_->abort();
  if (Status status = messages_->close(ProcessGroup::kGrace); !status.isOk()) {
    warnOnStderr(status.message());
    keepsMessages_ = true; // the watchdog may ask it until this device goes
  }
}

} // namespace braid
