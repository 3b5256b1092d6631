//===- backends/cpu/cpu_device.cpp - one rank's memory and queues -----------------------------===//

#include "backends/cpu/cpu_device.h"

#include "backends/cpu/queue/flags.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

CpuDevice::CpuDevice(RankGroup &group, Options options, CommandObserver &observer)
    : group_(group), options_(options), observer_(observer),
      memory_(options_.rank, options_.process), link_(options_.rank, group.size()) {
  lists_.push_back(std::make_unique<QueueList>());
  published_.store(lists_.back().get(), std::memory_order_release);
}

bool CpuDevice::stopWithin(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool haveEnded = true;
  for (std::unique_ptr<HardwareQueue> &queue : queues_) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    haveEnded &= queue->stopWithin(left);
  }
  return haveEnded;
}

// -- Preparation. --

Status CpuDevice::reserveStreams(uint32_t count) {
  const uint32_t wanted = options_.queues == 0 ? count : std::min(count, options_.queues);
  while (queues_.size() < wanted)
    if (Status status = addQueue(); !status.isOk())
      return status.annotated(fmt::format("rank {}", options_.rank));
  return Status::ok();
}

Result<void *> CpuDevice::callerStream(uint32_t number) {
  callersStreams_.insert({0, number});
  return reinterpret_cast<void *>(static_cast<uintptr_t>(number));
}

Status CpuDevice::setCallerStream(void *stream, Tag) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (number == 0 || (number < kMaxStreams && callersStreams_.count(uint32_t(number)) != 0))
    return Status::ok();
  return badInput("expected one of the {} streams of the job, got {}", callersStreams_.size(),
                  number);
}

Status CpuDevice::addQueue() {
  const uint32_t number = static_cast<uint32_t>(queues_.size());
  auto queue = std::make_unique<HardwareQueue>(
      group_, HardwareQueue::Options{options_.rank, number, observer_,
                                     options_.isReproducible ? GemmBy::Loops : GemmBy::Library});
  if (options_.hasWorkers)
    BRAID_TRY(queue->start());
  observer_.opened(number);
  queues_.push_back(std::move(queue));
  auto list = std::make_unique<QueueList>();
  for (std::unique_ptr<HardwareQueue> &each : queues_)
    list->push_back(each.get());
  published_.store(list.get(), std::memory_order_release);
  lists_.push_back(std::move(list));
  return Status::ok();
}

Result<uint32_t> CpuDevice::createEvents(uint32_t count) {
  if (std::optional<uint32_t> first = ranges_.reuse(count))
    return *first;
  const uint32_t first = static_cast<uint32_t>(events_.size());
  events_.resize(first + count);
  ranges_.add(first, count);
  return first;
}

std::string CpuDevice::choices() const {
  return options_.isReproducible
             ? "GEMMs: plain loops, because OpenBLAS's choice of algorithm depends on M"
             : "";
}

// -- Issuing. --

void CpuDevice::copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) {
  issue(stream, tag, Kind::Copy, {.bytes = {dst, src, bytes}});
}

void CpuDevice::matmul(uint32_t stream, Tag tag, const MatmulArgs &args) {
  issue(stream, tag, Kind::Matmul, {.matmul = args});
}

void CpuDevice::sum(uint32_t stream, Tag tag, const SumArgs &args) {
  issue(stream, tag, Kind::Sum, {.sum = args});
}

void CpuDevice::pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) {
  issue(stream, tag, Kind::Pointwise, {.pointwise = args});
}

void CpuDevice::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool,
                           TransferMode) {
  for (const BatchedCommand &step : steps) {
    tag.command = step.command;
    if (step.kind == CommandKind::Copy)
      copy(stream, tag, step.dst, step.src, step.bytes);
    else if (step.kind == CommandKind::Sum)
      sum(stream, tag, *step.sum);
    else
      issueOrRecord(tag,
                    [this, stream, flag = step.flag,
                     kind = step.kind == CommandKind::Signal ? Kind::Store : Kind::Wait](Tag now) {
                      push(stream, now, kind, {.flag = {flag, now.run, scope()}});
                    });
  }
}

// -- Messages. --

void CpuDevice::group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) {
  issueOrRecord(
      tag, [this, stream, work = workOf(messages)](Tag now) { pushMessages(stream, now, work); });
}

void CpuDevice::collective(uint32_t stream, Tag tag, const CollectiveArgs &args) {
  issueOrRecord(tag, [this, stream, work = workOf(args, options_.rank)](Tag now) {
    pushMessages(stream, now, work);
  });
}

void CpuDevice::pushMessages(uint32_t stream, Tag tag, Work work) {
  if (!link_.isOpen())
    return group_.abort(
        internalError("rank {} tried to send messages before openTeams()", options_.rank));
  push(stream, tag, Kind::Exchange, {.operation = link_.issue(tag, std::move(work)).release()});
}

// -- Events. --

void CpuDevice::record(uint32_t stream, Tag tag, uint32_t number) {
  issueOrRecord(tag, [=, this, &event = events_[number]](Tag now) {
    push(stream, now, Kind::Store,
         {.flag = {&event.reached, ++event.issued, scopeOf(FutexScope::Process)}});
  });
}

void CpuDevice::waitEvent(uint32_t stream, Tag tag, uint32_t number) {
  issueOrRecord(tag, [=, this, &event = events_[number]](Tag now) {
    push(stream, now, Kind::Wait,
         {.flag = {&event.reached, event.issued, scopeOf(FutexScope::Process)}});
  });
}

// -- Graphs. --

Status CpuDevice::beginCapture() {
  recording_ = &graphs_[nextGraph_];
  return Status::ok();
}

void CpuDevice::launch(uint32_t graph, Tag tag) {
  for (const Recorded &each : graphs_.at(graph)) {
    tag.command = each.command;
    each.issue(tag);
  }
}

// -- Called by the host thread. --

Status CpuDevice::synchronize() {
  auto isDone = [this] { return isDrained(); };
  auto sleep = [this](std::chrono::milliseconds slice) { sleepUntilDrained(slice); };
  return group_.waitForDevice(options_.rank, isDone, sleep);
}

bool CpuDevice::isDrained() const {
  for (const std::unique_ptr<HardwareQueue> &queue : queues_)
    if (!queue->isDrained())
      return false;
  return true;
}

/// Waits for the first undrained queue only; the caller then rechecks all queues.
void CpuDevice::sleepUntilDrained(std::chrono::milliseconds slice) {
  for (std::unique_ptr<HardwareQueue> &queue : queues_)
    if (!queue->isDrained())
      return queue->waitDrained(slice);
}

std::vector<Span> CpuDevice::takeTrace() {
  std::vector<Span> spans;
  for (std::unique_ptr<HardwareQueue> &queue : queues_) {
    std::vector<Span> part = queue->takeSpans();
    spans.insert(spans.end(), part.begin(), part.end());
  }
  return spans;
}

} // namespace braid
