//===- backends/cpu/job_recorder.h - writes down in the job memory what a rank runs -----------===//
#pragma once

#include "backends/cpu/queue/command_observer.h"
#include "ir/program.h"
#include "runtime/job/bootstrap/job_memory.h"

#include <memory>

namespace braid {

/// Fills a rank's queue slots and flight ring, for watchdogs and reports. Two looks at the clock
/// and some relaxed stores a command.
class JobRecorder final : public CommandObserver {
public:
  /// `next`, if not null, is called in turn, between begin and end.
  JobRecorder(RankSlot &slot, CommandObserver *next);
  void opened(uint32_t queue) override;
  void issued(uint32_t queue, const QueuedCommand &command) override;
  bool begin(uint32_t queue, const QueuedCommand &command) override;
  void waiting(uint32_t queue, const QueuedCommand &command, uint32_t seen) override;
  void moved(uint32_t queue, const QueuedCommand &command) override;
  void end(uint32_t queue, const QueuedCommand &command) override;
  /// The command has not begun, because it would have to wait.
  void showWait(uint32_t queue, const QueuedCommand &command);

private:
  void block(uint32_t queue, const QueuedCommand &command, uint32_t seen);
  /// The record of one worker.
  struct alignas(64) Worker {
    uint64_t sequence = 0;  ///< the number of its current command
    uint64_t completed = 0; ///< commands
  };

  RankSlot &slot_;
  CommandObserver *next_;
  std::unique_ptr<Worker[]> workers_; ///< by queue, of which each stream of a Plan has one
  uint64_t issued_ = 0;               ///< the host thread's
};

} // namespace braid
