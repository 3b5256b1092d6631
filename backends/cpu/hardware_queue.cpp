//===- backends/cpu/hardware_queue.cpp - runs the commands of one queue in order --------------===//

#include "backends/cpu/hardware_queue.h"

#include "backends/cpu/words.h"

#include <fmt/format.h>

#include <cstring>
#include <system_error>

namespace braid {

namespace {

// A wake-up is never lost for good: who sleeps looks again after this long.
constexpr std::chrono::milliseconds kIdleSlice(100);
constexpr std::chrono::milliseconds kWaitSlice(50);

int64_t nowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

} // namespace

bool isRunnable(const QueuedCommand &command) {
  if (command.kind != QueuedCommand::Kind::Wait)
    return true;
  const QueuedCommand::Word &word = command.args.word;
  return hasReached(wordAt(word.address).load(std::memory_order_acquire), word.value);
}

Status HardwareQueue::start() {
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error &error) {
    return Status(StatusCode::Unsupported,
                  fmt::format("expected one more thread for a stream, got '{}'", error.what()));
  }
  return Status::ok();
}

void HardwareQueue::stop() {
  if (!worker_.joinable())
    return;
  QueuedCommand command{};
  command.kind = QueuedCommand::Kind::Stop;
  while (!commands_.push(command)) // no memory just now
    std::this_thread::yield();
  worker_.join();
}

// -- For the rank's host thread. --

void HardwareQueue::issue(const QueuedCommand &command) {
  if (group_.isAborted())
    return;
  if (!commands_.push(command))
    group_.abort(Status(StatusCode::Unsupported, "out of memory for issued commands"));
}

bool HardwareQueue::isDrained() const {
  return completed_.load(std::memory_order_acquire) == commands_.published();
}

void HardwareQueue::waitDrained(std::chrono::milliseconds slice) {
  uint32_t completed = completed_.load(std::memory_order_relaxed);
  if (completed == commands_.published())
    return;
  isHostWaiting_.store(true, std::memory_order_relaxed);
  futexWait(&completed_, completed, slice);
  isHostWaiting_.store(false, std::memory_order_relaxed);
}

std::vector<Span> HardwareQueue::takeSpans() {
  std::vector<Span> spans;
  spans.swap(spans_);
  return spans;
}

// -- For everyone. --

uint64_t HardwareQueue::progress() const {
  return uint64_t(commands_.published()) + completed_.load(std::memory_order_relaxed);
}

bool HardwareQueue::isBusy() const {
  return completed_.load(std::memory_order_relaxed) != commands_.published() &&
         !blocked_.word.load(std::memory_order_relaxed);
}

std::optional<PendingWait> HardwareQueue::blockedIn(std::memory_order order) const {
  if (!blocked_.word.load(order))
    return std::nullopt;
  Tag tag{blocked_.plan.load(std::memory_order_relaxed),
          blocked_.command.load(std::memory_order_relaxed),
          blocked_.run.load(std::memory_order_relaxed)};
  return PendingWait{tag, blocked_.stream.load(std::memory_order_relaxed)};
}

void HardwareQueue::wake() const {
  if (const void *word = blocked_.word.load(std::memory_order_relaxed))
    futexWake(word);
}

// -- Running. --

void HardwareQueue::work() {
  for (;;) {
    const QueuedCommand *command = commands_.front();
    if (!command) {
      if (isHostWaiting_.load(std::memory_order_seq_cst))
        futexWake(&completed_);
      commands_.sleep(kIdleSlice);
      continue;
    }
    if (command->kind == QueuedCommand::Kind::Stop)
      return;
    int64_t begin = command->isTraced ? nowNs() : 0;
    if (!group_.isAborted())
      runGuarded(*command);
    if (command->isTraced)
      keepSpan(*command, begin, nowNs());
    finishFront();
  }
}

void HardwareQueue::step(int64_t &clock) {
  const QueuedCommand *command = commands_.front();
  int64_t begin = std::max(nowNs(), clock + 1);
  runGuarded(*command);
  clock = std::max(nowNs(), begin + 1);
  if (command->isTraced)
    keepSpan(*command, begin, clock);
  finishFront();
}

void HardwareQueue::finishFront() {
  commands_.pop();
  // Sequentially consistent for the same reason as CommandQueue::push().
  completed_.store(++done_, std::memory_order_seq_cst);
}

void HardwareQueue::keepSpan(const QueuedCommand &command, int64_t begin, int64_t end) {
  try {
    spans_.push_back({command.tag, command.stream, begin, end});
  } catch (const std::bad_alloc &) {
    group_.abort(Status(StatusCode::Unsupported, "out of memory for the trace"));
  }
}

void HardwareQueue::runGuarded(const QueuedCommand &command) {
  try {
    run(command);
  } catch (const std::bad_alloc &) {
    group_.abort(Status(StatusCode::Unsupported, "out of memory for the operands of a product"));
  }
}

void HardwareQueue::run(const QueuedCommand &command) {
  const QueuedCommand::Args &args = command.args;
  switch (command.kind) {
  case QueuedCommand::Kind::Copy:
    if (args.bytes.count != 0)
      std::memmove(args.bytes.dst, args.bytes.src, args.bytes.count);
    return;
  case QueuedCommand::Kind::Matmul:
    scratch_.reserve(scratchHint_.load(std::memory_order_relaxed));
    return multiply(args.matmul, scratch_);
  case QueuedCommand::Kind::Add:
    return addElements(args.bytes.dtype, args.bytes.dst, args.bytes.src,
                       args.bytes.count / sizeOf(args.bytes.dtype));
  case QueuedCommand::Kind::Store:
    return storeWord(args.word.address, args.word.value);
  case QueuedCommand::Kind::Wait:
    return await(command);
  case QueuedCommand::Kind::Stop:
    return;
  }
}

void HardwareQueue::await(const QueuedCommand &command) {
  const QueuedCommand::Word &word = command.args.word;
  std::atomic_ref<uint32_t> counter = wordAt(word.address);
  uint32_t seen = counter.load(std::memory_order_acquire);
  if (hasReached(seen, word.value))
    return;
  blocked_.plan.store(command.tag.plan, std::memory_order_relaxed);
  blocked_.command.store(command.tag.command, std::memory_order_relaxed);
  blocked_.run.store(command.tag.run, std::memory_order_relaxed);
  blocked_.stream.store(command.stream, std::memory_order_relaxed);
  blocked_.word.store(word.address, std::memory_order_release);
  // An abort wakes all sleepers, but may just miss one that is about to sleep.
  while (!hasReached(seen, word.value) && !group_.isAborted()) {
    futexWait(word.address, seen, kWaitSlice);
    seen = counter.load(std::memory_order_acquire);
  }
  blocked_.word.store(nullptr, std::memory_order_relaxed);
}

} // namespace braid
