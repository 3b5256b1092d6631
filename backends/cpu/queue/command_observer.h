//===- backends/cpu/queue/command_observer.h - an observer of running commands ----------------===//
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace braid {

struct QueuedCommand;

/// Observes every command of one rank, both when it is issued and while a worker runs it. The
/// rank's workers call the observer concurrently, each for its own queue, so the observer must not
/// synchronize the workers. Commands dropped after an abort are not reported.
class CommandObserver {
public:
  virtual ~CommandObserver() = default;
  /// Called on the host thread once `queue` exists, before any other call for the queue.
  virtual void opened(uint32_t /*queue*/) {}
  /// Called on the host thread before the command is appended.
  virtual void issued(uint32_t /*queue*/, const QueuedCommand &) {}
  /// Called before the command runs. If it returns false, the command is skipped. An exception
  /// aborts the run, as if the command had thrown it. If the run is aborted during the call, the
  /// command is dropped.
  virtual bool begin(uint32_t /*queue*/, const QueuedCommand &) { return true; }
  /// Called repeatedly while a wait is blocked, with the flag's current value in `seen`, or while a
  /// group or a collective is blocked by other ranks.
  virtual void waiting(uint32_t /*queue*/, const QueuedCommand &, uint32_t /*seen*/) {}
  /// Called when a group or a collective has moved data but is not yet complete.
  virtual void moved(uint32_t /*queue*/, const QueuedCommand &) {}
  /// Called once the command has completed or been skipped.
  virtual void end(uint32_t /*queue*/, const QueuedCommand &) {}
};

/// Creates the observer for `rank`; may return null.
using ObserverFactory = std::function<std::unique_ptr<CommandObserver>(int64_t rank)>;

} // namespace braid
