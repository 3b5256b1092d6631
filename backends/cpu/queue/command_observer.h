//===- backends/cpu/queue/command_observer.h - an observer of running commands ----------------===//
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace braid {

struct QueuedCommand;

/// Sees every command of one rank: as it is issued, and on the worker that runs it. The workers of
/// a rank call at the same time, each for its own queue; nothing here may order them. Commands that
/// are dropped after an abort are not seen.
class CommandObserver {
public:
  virtual ~CommandObserver() = default;
  /// There is a queue of this number now. Before any other call for it; on the host thread.
  virtual void opened(uint32_t /*queue*/) {}
  /// About to be appended. On the host thread.
  virtual void issued(uint32_t /*queue*/, const QueuedCommand &) {}
  /// About to run. False: it is passed over, as if it had done nothing. Whatever it throws aborts
  /// the run, as if the command had thrown it. If the run is aborted meanwhile the command is
  /// dropped.
  virtual bool begin(uint32_t /*queue*/, const QueuedCommand &) { return true; }
  /// A wait that found `seen` in its flag and has to wait on, or a group or a collective that has
  /// to wait for others. Called again now and then.
  virtual void waiting(uint32_t /*queue*/, const QueuedCommand &, uint32_t /*seen*/) {}
  /// A group or a collective that goes on has moved something.
  virtual void moved(uint32_t /*queue*/, const QueuedCommand &) {}
  /// It is done, or was passed over.
  virtual void end(uint32_t /*queue*/, const QueuedCommand &) {}
};

/// Makes the observer of a rank; may return null.
using ObserverFactory = std::function<std::unique_ptr<CommandObserver>(int64_t rank)>;

} // namespace braid
