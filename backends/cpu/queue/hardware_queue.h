//===- backends/cpu/queue/hardware_queue.h - runs the commands of one queue in order ----------===//
//
// Three parties use a queue: the rank's host thread issues commands, a worker (or the scheduler)
// executes the commands, and the host threads of all ranks watch the progress. The parties share:
//
//   published count   host -> worker, release/acquire: a command runs after it was issued
//   completed count   worker -> host, release; acquired only by the owner's synchronize()
//   watched state     relaxed, also in observers: if a watcher synchronized with a worker, it
//                     could pass the ordering on to its own worker, and two ranks would appear
//                     ordered even without a signal between them
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
  /// `group` and `options.observer` must outlive the queue.
  HardwareQueue(RankGroup &group, Options options) : group_(group), options_(options) {}
  ~HardwareQueue();

  /// Starts the worker.
  Status start();
  static constexpr std::chrono::hours kNoLimit{24 * 365 * 100};
  /// Ends the worker, if any, after its current command. Requires an aborted group.
  void stop() { stopWithin(kNoLimit); }
  /// Like stop(), but returns false if the current command does not end within `patience`. The
  /// worker then continues to use this object, which must never be destroyed.
  bool stopWithin(std::chrono::milliseconds patience);

  // -- Called by the rank's host thread. --

  /// Appends `command`, or drops it if the group has been aborted.
  void issue(const QueuedCommand &command);
  /// Returns true if all commands have completed, or were dropped after an abort. The effects of
  /// the commands are then visible to the caller.
  bool isDrained() const;
  /// Sleeps until the queue is drained, but for at most `slice`.
  void waitDrained(std::chrono::milliseconds slice);
  /// Returns the spans recorded so far, and clears them. Requires a drained queue.
  std::vector<Span> takeSpans();

  // -- Called by any thread. --

  /// Wakes a blocked worker, so that it rechecks its condition and checks for an abort.
  void wake() const;

  // -- Called by the scheduler, if there is no worker. --

  const QueuedCommand *front() { return commands_.front(); }
  /// Runs the front command, which must be runnable; a group or collective advances as far as it
  /// can without waiting. `clock` is the end time of the last command in any queue. Spans never
  /// overlap, so the span of a group or collective covers only its last step.
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
  Advance lastAdvance_ = Advance::Waits; ///< outcome of the current exchange's last step

  alignas(64) std::atomic<uint32_t> completed_{0};
  std::atomic<bool> isHostWaiting_{false};
  std::atomic<uint32_t> hasEnded_{0}; ///< a futex: 1 once the worker has ended

  std::atomic<const void *> blockedIn_{nullptr};       ///< futex that the worker waits on, or null
  std::atomic<FutexScope> scope_{FutexScope::Process}; ///< scope of that futex
};

/// Returns true if `command` can make progress now.
bool isRunnable(const QueuedCommand &command);

} // namespace braid
