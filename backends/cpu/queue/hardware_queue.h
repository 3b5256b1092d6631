//===- backends/cpu/queue/hardware_queue.h - runs the commands of one queue in order ----------===//
//
// Three parties look at a queue: the rank's host thread issues to it, a worker (or the scheduler)
// runs it, and the host threads of all ranks watch whether it still moves. What they share:
//
//   published count   host -> worker, release/acquire: a command happens after its issue
//   completed count   worker -> host, release; acquired only by the owner's synchronize()
//   all that is watched, in the observer too: relaxed. A watcher that learnt a worker's past could
//                     pass it on to its own worker, and two ranks without a signal between them
//                     would look ordered
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
    CommandObserver *observer; ///< may be null
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

  // -- For the scheduler, where there is no worker. --

  const QueuedCommand *front() { return commands_.front(); }
  /// Runs the front command, which must be able to go on; of a group or a collective, as much as
  /// can be done now. `clock` is the time at which the last command of the group ended; the spans
  /// of two commands never overlap, so that of a group or a collective is the last part of it.
  void step(int64_t &clock);

private:
  void work();
  void guard(const QueuedCommand &command, llvm::function_ref<void()> body);
  void runGuarded(const QueuedCommand &command);
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

  // The worker's.
  Scratch scratch_;
  std::vector<Span> spans_;
  uint32_t done_ = 0;
  Advance lastAdvance_ = Advance::Waits; ///< the state of the current group or collective

  alignas(64) std::atomic<uint32_t> completed_{0};
  std::atomic<bool> isHostWaiting_{false};
  std::atomic<uint32_t> hasEnded_{0}; ///< the worker; a futex

  std::atomic<const void *> blockedIn_{nullptr};       ///< the scope of that futex
  std::atomic<FutexScope> scope_{FutexScope::Process}; ///< that futex is in this scope
};

/// True if nothing holds `command` up now.
bool isRunnable(const QueuedCommand &command);

} // namespace braid
