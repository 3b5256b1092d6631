//===- backends/cpu/job_recorder.h - records a rank's commands in the job memory --------------===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "ir/program.h"
#include "runtime/job/bootstrap/job_memory.h"

namespace braid {

/// Writes a rank's queue slots, which watchdogs and reports read. Costs two clock reads and a few
/// relaxed stores per command.
class JobRecorder final : public CommandObserver {
public:
  /// Forwards each call to `next`, if set. Records begin() before, and end() after, forwarding it.
  JobRecorder(RankSlot &slot, CommandObserver *next);
  void opened(uint32_t queue) override;
  void issued(uint32_t queue, const QueuedCommand &command) override;
  bool begin(uint32_t queue, const QueuedCommand &command) override;
  void waiting(uint32_t queue, const QueuedCommand &command, uint32_t seen) override;
  void moved(uint32_t queue, const QueuedCommand &command) override;
  void end(uint32_t queue, const QueuedCommand &command) override;
  /// Records that a command is waiting and cannot begin yet.
  void showWait(uint32_t queue, const QueuedCommand &command);

private:
  void block(uint32_t queue, const QueuedCommand &command, uint32_t seen);
  RankSlot &slot_;
  CommandObserver *next_;
  uint64_t issued_ = 0; ///< number of commands issued by the host thread
};

} // namespace braid
