//===- backends/cpu/cpu_device.cpp - one rank's memory and queues -----------------------------===//

#include "backends/cpu/cpu_device.h"

#include "backends/cpu/queue/flags.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

CpuDevice::CpuDevice(RankGroup &group, Options options, MessageLink::Open openMessages)
    : group_(group), options_(options), memory_(group, options_.rank),
      link_(options_.rank, std::move(openMessages)),
      operations_(link_, options_.rank, group.size()) {
  lists_.push_back(std::make_unique<QueueList>());
  published_.store(lists_.back().get(), std::memory_order_release);
}

void CpuDevice::stop() {
  for (std::unique_ptr<HardwareQueue> &queue : queues_)
    queue->stop();
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

// -- While preparing. --

Status CpuDevice::reserveStreams(uint32_t count) {
  uint32_t wanted = options_.queues == 0 ? count : std::min(count, options_.queues);
  while (streamQueues_.size() < wanted) {
    if (Status status = addQueue(); !status.isOk())
      return status.annotated(fmt::format("rank {}", options_.rank));
    streamQueues_.push_back(static_cast<uint32_t>(queues_.size()) - 1);
  }
  return Status::ok();
}

Result<void *> CpuDevice::callerStream(uint32_t number) {
  if (!handover_)
    handover_ = BRAID_TRY(createEvents(1));
  callersQueues_.try_emplace(0, callersQueue_);
  if (options_.queues == 0 && callersQueues_.count(number) == 0) {
    BRAID_TRY(addQueue());
    callersQueues_[number] = static_cast<uint32_t>(queues_.size()) - 1;
  }
  return reinterpret_cast<void *>(static_cast<uintptr_t>(number));
}

void CpuDevice::undoCallerStream(uint32_t number) {
  if (number == 0 || callersQueues_.erase(number) == 0)
    return;
  queues_.back()->stop();
  ended_.push_back(std::move(queues_.back()));
  queues_.pop_back();
  publishQueues();
}

Status CpuDevice::setCallerStream(void *stream, Tag tag) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (options_.queues != 0 || (number == 0 && callersQueues_.empty()))
    return Status::ok(); // there is one order anyway
  const auto found = number < kMaxStreams ? callersQueues_.find(static_cast<uint32_t>(number))
                                          : callersQueues_.end();
  if (found == callersQueues_.end())
    return badInput("expected one of the {} streams that the job has given out, got {}",
                    callersQueues_.size(), number);
  if (found->second == callersQueue_)
    return Status::ok();
  record(0, tag, *handover_);
  callersQueue_ = found->second;
  waitEvent(0, tag, *handover_);
  return Status::ok();
}

Status CpuDevice::addQueue() {
  const uint32_t number = static_cast<uint32_t>(queues_.size());
  auto queue = std::make_unique<HardwareQueue>(
      group_,
      HardwareQueue::Options{options_.rank, number, options_.observer,
                             options_.isReproducible ? GemmBy::Loops : GemmBy::Library},
      scratchHint_);
  if (options_.hasWorkers)
    BRAID_TRY(queue->start());
  if (options_.observer)
    options_.observer->opened(number);
  queues_.push_back(std::move(queue));
  publishQueues();
  return Status::ok();
}

void CpuDevice::publishQueues() {
  auto list = std::make_unique<QueueList>();
  for (std::unique_ptr<HardwareQueue> &each : queues_)
    list->push_back(each.get());
  published_.store(list.get(), std::memory_order_release);
  lists_.push_back(std::move(list));
}

Result<uint32_t> CpuDevice::createEvents(uint32_t count) {
  const QueuedCommand::Flag never{&neverRecorded_, 0, FutexScope::Process};
  if (std::optional<uint32_t> first = ranges_.reuse(count)) {
    for (uint32_t i = 0; i < count; ++i)
      events_[*first + i].last = never; // its counters go on counting
    return *first;
  }
  uint32_t first = static_cast<uint32_t>(events_.size());
  for (uint32_t i = 0; i < count; ++i)
    events_.push_back({{}, never});
  ranges_.add(first, count);
  return first;
}

Status CpuDevice::warm(const PlanMatmul &shape) {
  size_t bytes = scratchBytes(shape.dtype, shape.m, shape.n, shape.k);
  if (bytes > scratchHint_.load(std::memory_order_relaxed))
    scratchHint_.store(bytes, std::memory_order_relaxed);
  return Status::ok();
}

std::string CpuDevice::choices() const {
  return options_.isReproducible ? "GEMMs: by plain loops, because OpenBLAS chooses by M, too" : "";
}

// -- Issuing. --

void CpuDevice::issue(uint32_t stream, Tag tag, Kind kind, const QueuedCommand::Args &args) {
  if (recording_) {
    recording_->push_back({{kind, false, stream, tag, args}, {}});
    return;
  }
  assert(queueOf(stream) < queues_.size() && "streams are reserved before they are used");
  queues_[queueOf(stream)]->issue({kind, isTracing_, stream, tag, args});
}

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
      issue(stream, tag, step.kind == CommandKind::Signal ? Kind::Store : Kind::Wait,
            {.flag = {step.flag, tag.run, scope()}});
  }
}

// -- Messages. --

/// Teams need nothing of their own: each collective is messages between its members.
Status CpuDevice::openTeams(llvm::ArrayRef<Team>, ControlPlane &, TransferMode) {
  return link_.open();
}

void CpuDevice::group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) {
  issue(stream, tag, {messages.vec(), {}, {}});
}

void CpuDevice::collective(uint32_t stream, Tag tag, const CollectiveArgs &args) {
  issue(stream, tag, {{}, args, args.team.vec()});
}

void CpuDevice::issue(uint32_t stream, Tag tag, IssuedMessages messages) {
  if (recording_) {
    recording_->push_back({{Kind::Exchange, false, stream, tag, {}}, {}, std::move(messages)});
    return;
  }
  if (!link_.isOpen())
    return group_.abort(
        internalError("rank {} was to send messages before openTeams()", options_.rank));
  issue(stream, tag, Kind::Exchange, {.operation = operations_.make(tag, messages).release()});
}

// -- Events. --

CpuDevice::EventOnQueue &CpuDevice::find(Event &event, uint32_t queue) {
  for (EventOnQueue &each : event.queues)
    if (each.queue == queue)
      return each;
  // Once for each event and queue, like a driver that grows its pools on first use.
  eventFlags_.emplace_back();
  event.queues.push_back({queue, 0, &eventFlags_.back()});
  return event.queues.back();
}

void CpuDevice::record(uint32_t stream, Tag tag, uint32_t number) {
  if (recording_) {
    recording_->push_back({{Kind::Store, false, stream, tag, {}}, number});
    return;
  }
  Event &event = events_[number];
  EventOnQueue &here = find(event, queueOf(stream));
  event.last = {here.flag, ++here.records, scopeOf(FutexScope::Process)};
  issue(stream, tag, Kind::Store, {.flag = event.last});
}

void CpuDevice::waitEvent(uint32_t stream, Tag tag, uint32_t number) {
  if (recording_) {
    recording_->push_back({{Kind::Wait, false, stream, tag, {}}, number});
    return;
  }
  issue(stream, tag, Kind::Wait, {.flag = events_[number].last});
}

// -- Graphs. --

Status CpuDevice::beginCapture() {
  recording_ = &graphs_[nextGraph_];
  return Status::ok();
}

/// Flags and events count runs, so what was recorded is issued anew with the number of this one.
void CpuDevice::launch(uint32_t graph, Tag tag) {
  for (const Recorded &each : graphs_.at(graph)) {
    const QueuedCommand &command = each.command;
    tag.command = command.tag.command;
    QueuedCommand::Args args = command.args;
    if (command.kind == Kind::Store || command.kind == Kind::Wait)
      args.flag.value = tag.run;
    if (each.messages)
      issue(command.stream, tag, *each.messages);
    else if (!each.event)
      issue(command.stream, tag, command.kind, args);
    else if (command.kind == Kind::Store)
      record(command.stream, tag, *each.event);
    else
      waitEvent(command.stream, tag, *each.event);
  }
}

// -- From the host. --

Status CpuDevice::synchronize() {
  auto isDone = [this] { return isDrained(); };
  auto sleep = [this](std::chrono::milliseconds slice) { sleepUntilDrained(slice); };
  return group_.waitForDevice(options_.rank, {isDone, sleep});
}

bool CpuDevice::isDrained() const {
  for (const std::unique_ptr<HardwareQueue> &queue : queues_)
    if (!queue->isDrained())
      return false;
  return true;
}

/// Sleeps on one of the queues that are not; the others are looked at when it is.
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
