//===- backends/cpu/queue/hardware_queue.cpp - runs the commands of one queue in order --------===//

#include "backends/cpu/queue/hardware_queue.h"

#include "backends/cpu/queue/flags.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <cstring>

namespace braid {

namespace {

// Sleeping threads recheck their conditions at these intervals, so a lost wake-up only delays them.
constexpr std::chrono::milliseconds kIdleSlice(100);
constexpr std::chrono::milliseconds kWaitSlice(50);

/// Frees the command's operation, if any. The command must not run again.
void release(const QueuedCommand &command) {
  if (command.kind == QueuedCommand::Kind::Exchange)
    delete command.args.operation;
}

int64_t nowNs() { return static_cast<int64_t>(monotonicNs()); }

} // namespace

bool isRunnable(const QueuedCommand &command) {
  if (command.kind == QueuedCommand::Kind::Exchange)
    return command.args.operation->canAdvance();
  if (command.kind != QueuedCommand::Kind::Wait)
    return true;
  const QueuedCommand::Flag &flag = command.args.flag;
  return hasReached(flagAt(flag.address).load(std::memory_order_acquire), flag.value);
}

HardwareQueue::~HardwareQueue() {
  stop();
  while (commands_.front()) // free dropped commands
    finishFront();
}

Status HardwareQueue::start() {
  return startThread(worker_, "a stream", [this] { work(); });
}

bool HardwareQueue::stopWithin(std::chrono::milliseconds patience) {
  if (!worker_.joinable())
    return true;
  QueuedCommand command{};
  command.kind = QueuedCommand::Kind::Stop;
  while (!commands_.push(command)) // out of memory for now
    std::this_thread::yield();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (hasEnded_.load(std::memory_order_relaxed) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      worker_.detach();
      return false;
    }
    futexWait(&hasEnded_, 0, kWaitSlice);
  }
  worker_.join();
  return true;
}

// -- Called by the rank's host thread. --

void HardwareQueue::issue(const QueuedCommand &command) {
  if (group_.isAborted())
    return release(command);
  options_.observer.issued(options_.number, command);
  if (commands_.push(command))
    return;
  release(command);
  group_.abort(unsupported("out of memory for issued commands"));
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

// -- Called by any thread. --

void HardwareQueue::wake() const {
  if (const void *futex = blockedIn_.load(std::memory_order_relaxed))
    futexWake(futex, scope_.load(std::memory_order_relaxed));
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
      break;
    int64_t begin = command->isTraced ? nowNs() : 0;
    if (!group_.isAborted())
      guard(*command, [&] { runObserved(*command); });
    if (command->isTraced)
      keepSpan(*command, begin, nowNs());
    finishFront();
  }
  hasEnded_.store(1, std::memory_order_relaxed);
  futexWake(&hasEnded_);
}

void HardwareQueue::step(int64_t &clock) {
  const QueuedCommand *command = commands_.front();
  const int64_t begin = command->isTraced ? std::max(nowNs(), clock + 1) : 0;
  bool isWhole = true;
  if (command->kind == QueuedCommand::Kind::Exchange)
    guard(*command, [&] { isWhole = advance(*command) && lastAdvance_ == Advance::IsOver; });
  if (!isWhole)
    return;
  guard(*command, [&] { runObserved(*command); });
  if (command->isTraced) {
    clock = std::max(nowNs(), begin + 1);
    keepSpan(*command, begin, clock);
  }
  finishFront();
}

void HardwareQueue::finishFront() {
  release(*commands_.front());
  commands_.pop();
  // Sequentially consistent for the same reason as in CommandQueue::push().
  completed_.store(++done_, std::memory_order_seq_cst);
}

void HardwareQueue::keepSpan(const QueuedCommand &command, int64_t begin, int64_t end) {
  try {
    spans_.push_back({command.tag, command.stream, begin, end});
  } catch (const std::bad_alloc &) {
    group_.abort(unsupported("out of memory for the trace"));
  }
}

void HardwareQueue::guard(const QueuedCommand &command, llvm::function_ref<void()> body) {
  try {
    body();
  } catch (const std::bad_alloc &) {
    group_.abort(unsupported("out of memory for the operands of a GEMM or collective"));
  } catch (const std::exception &error) {
    group_.abort(
        peerFailed("rank {} failed in {}: {}", options_.rank, describe(command.tag), error.what()));
  }
}

void HardwareQueue::runObserved(const QueuedCommand &command) {
  const bool isWanted = options_.observer.begin(options_.number, command);
  // begin() may have taken a long time, and a run must not signal peers after an abort.
  if (group_.isAborted() || (isWanted && !run(command)))
    return;
  options_.observer.end(options_.number, command);
}

/// Runs a command. Returns false if an abort ended a wait or an exchange.
bool HardwareQueue::run(const QueuedCommand &command) {
  const QueuedCommand::Args &args = command.args;
  switch (command.kind) {
  case QueuedCommand::Kind::Copy:
    if (args.bytes.count != 0)
      std::memmove(args.bytes.dst, args.bytes.src, args.bytes.count);
    return true;
  case QueuedCommand::Kind::Matmul:
    multiply(args.matmul, scratch_, options_.gemms);
    return true;
  case QueuedCommand::Kind::Sum:
    sumParts(args.sum);
    return true;
  case QueuedCommand::Kind::Pointwise:
    applyFunctions(args.pointwise);
    return true;
  case QueuedCommand::Kind::Store:
    storeFlag(args.flag.address, args.flag.value, args.flag.scope);
    return true;
  case QueuedCommand::Kind::Wait:
    return await(command);
  case QueuedCommand::Kind::Exchange:
    return exchange(command);
  case QueuedCommand::Kind::Stop:
    break;
  }
  return true;
}

bool HardwareQueue::await(const QueuedCommand &command) {
  const QueuedCommand::Flag &flag = command.args.flag;
  std::atomic_ref<uint32_t> counter = flagAt(flag.address);
  uint32_t seen = counter.load(std::memory_order_acquire);
  if (hasReached(seen, flag.value))
    return true;
  block(flag.address, flag.scope);
  // An abort wakes all sleepers, but may miss a thread that is about to sleep.
  while (!hasReached(seen, flag.value) && !group_.isAborted()) {
    options_.observer.waiting(options_.number, command, seen);
    futexWait(flag.address, seen, kWaitSlice, flag.scope);
    seen = counter.load(std::memory_order_acquire);
  }
  unblock();
  return hasReached(seen, flag.value);
}

void HardwareQueue::block(const void *futex, FutexScope scope) {
  scope_.store(scope, std::memory_order_relaxed);
  blockedIn_.store(futex, std::memory_order_relaxed);
}

/// Moves all data that can be moved now. Returns false after an abort.
bool HardwareQueue::advance(const QueuedCommand &command) {
  const Result<Advance> advance = command.args.operation->advance();
  if (!advance) {
    group_.abort(advance.status());
    return false;
  }
  lastAdvance_ = *advance;
  if (lastAdvance_ == Advance::Moved)
    options_.observer.moved(options_.number, command);
  return true;
}

/// After its first wait, an exchange is reported as blocked even while parts move, because the
/// observer counts moved parts separately.
bool HardwareQueue::exchange(const QueuedCommand &command) {
  Operation &operation = *command.args.operation;
  while (!group_.isAborted() && advance(command)) {
    if (lastAdvance_ == Advance::IsOver) {
      unblock();
      return true;
    }
    if (lastAdvance_ == Advance::Moved)
      continue;
    block(operation.sleepsOn(), FutexScope::Processes);
    options_.observer.waiting(options_.number, command, 0);
    operation.sleep(kWaitSlice);
  }
  unblock();
  return false;
}

} // namespace braid
