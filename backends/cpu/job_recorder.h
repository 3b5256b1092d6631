//===- backends/cpu/job_recorder.h - records in the job memory which commands a rank runs -----===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "ir/program.h"
#include "runtime/job/bootstrap/job_memory.h"

namespace braid {

/// Fills a rank's queue slots, for watchdogs and reports. Costs two clock reads and a few relaxed
/// stores per command.
class JobRecorder {
public:
  /// Calls `next`, if it is not null, too.
  JobRecorder(RankSlot &slot, CommandObserver *next) : slot_(slot), next_(next) {}
  /// Called on the host thread when the queue exists, before any other call for it.
  void opened(uint32_t queue);
  // See CommandObserver.
  void issued(uint32_t queue, const QueuedCommand &command);
  bool begin(uint32_t queue, const QueuedCommand &command);
  void end(uint32_t queue, const QueuedCommand &command);
  /// Called, repeatedly, while a wait is blocked with `seen` in its flag, or a group or a
  /// collective is blocked by other ranks.
  void waiting(uint32_t queue, const QueuedCommand &command, uint32_t seen);
  /// Called when a group or a collective has moved data, but is not complete.
  void moved() { slot_.arrivals.fetch_add(1, std::memory_order_relaxed); }
  /// Records a command that cannot begin yet because it has to wait.
  void showWait(uint32_t queue, const QueuedCommand &command);

private:
  RankSlot &slot_;
  CommandObserver *next_;
  uint64_t issued_ = 0; ///< number of commands issued by the host thread
};

} // namespace braid
