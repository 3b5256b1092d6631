//===- backends/cpu/queue/hardware_queue.h - runs the commands of one queue in order ----------===//
//
// Three parties use a queue: the rank's host thread issues to it, a worker (or the scheduler)
// executes it, and the host threads of all ranks watch its progress. They share:
//
//   published count   host -> worker, release/acquire: a command happens after its issue
//   completed count   worker -> host, release; acquired only by the owner's synchronize()
//   watched state     relaxed, also in observers: a watcher that acquired a worker's past could
//                     pass it on to its own worker, and two ranks without a signal between them
//                     would appear ordered
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/gemm.h"
#include "backends/cpu/messages/operation.h"
#include "backends/cpu/queue/command_observer.h"
#include "backends/cpu/queue/command_queue.h"
#include "runtime/job/rank_group.h"

#include <optional>
#include <thread>

namespace braid {

class HardwareQueue {
public:
  struct Options {
    int64_t rank;
    uint32_t number;
    CommandObserver &observer;
    GemmBy gemms;
  };
  /// `group` and the observer must outlive the queue.
  HardwareQueue(RankGroup &group, Options options) : group_(group), options_(options) {}
  ~HardwareQueue();

  /// Starts the worker.
  Status start();
  /// Ends the worker after its current command; requires an aborted group. Does nothing without a
  /// worker.
  void stop();
  /// As stop(), but returns false if the current command does not end in time. The worker then
  /// continues to use this object, which must never be destroyed.
  bool stopWithin(std::chrono::milliseconds patience);

  // -- For the rank's host thread. --

  /// Appends a command, or drops it if the group has been aborted.
  void issue(const QueuedCommand &command);
  /// Returns true if all commands are complete, or dropped after an abort. Their effects are then
  /// visible to the caller.
  bool isDrained() const;
  /// Sleeps until the queue is drained, for at most `slice`.
  void waitDrained(std::chrono::milliseconds slice);
  /// Returns the spans so far. Requires a drained queue.
  std::vector<Span> takeSpans();

  // -- For everyone. --

  /// Wakes a waiting worker, which then checks whether it must stop waiting.
  void wake() const;

  // -- For the scheduler, without a worker. --

  const QueuedCommand *front() { return commands_.front(); }
  /// Runs the front command, which must be able to continue, or as much of a group or collective as
  /// is possible now. `clock` is the end of the last command of any queue: spans never overlap, so
  /// the span of a group or collective is that of its last part.
  void step(int64_t &clock);

private:
  void work();
  void guard(const QueuedCommand &command, llvm::function_ref<void()> body);
  void runObserved(const QueuedCommand &command);
  bool run(const QueuedCommand &command);
  bool await(const QueuedCommand &command);
  bool exchange(const QueuedCommand &command);
  bool advance(const QueuedCommand &command);
  void block(const void *futex, FutexScope scope);
  void unblock() { blockedIn_.store(nullptr, std::memory_order_relaxed); }
  void finishFront();
  void keepSpan(const QueuedCommand &command, int64_t begin, int64_t end);

  RankGroup &group_;
  const Options options_;
  CommandQueue commands_;
  std::thread worker_;

  // Used by the worker.
  Scratch scratch_;
  std::vector<Span> spans_;
  uint32_t done_ = 0;
  Advance lastAdvance_ = Advance::Waits; ///< the state of the current group or collective

  alignas(64) std::atomic<uint32_t> completed_{0};
  std::atomic<bool> isHostWaiting_{false};
  std::atomic<uint32_t> hasEnded_{0}; ///< true once the worker has ended; a futex

  std::atomic<const void *> blockedIn_{nullptr};       ///< futex on which the worker waits, or null
  std::atomic<FutexScope> scope_{FutexScope::Process}; ///< scope of that futex
};

/// Returns true if `command` can run now.
bool isRunnable(const QueuedCommand &command);

} // namespace braid
