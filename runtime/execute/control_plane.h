//===- runtime/execute/control_plane.h - a rank's connection to its job -----------------------===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// The collective calls of a job. All ranks make them in the same order.
enum class JobCall : uint8_t {
  None,
  Run, ///< runs a program; the only call in which ranks do not synchronize
  Prepare,
  Choose,
  GiveBack,
  Commit,
  Close,
};

/// One rank's connection to its job. A ControlPlane exchanges text with the other ranks, commits
/// steps, and reports failures, but does not transfer program data. Ranks may be threads or
/// processes; only the implementation differs.
class ControlPlane {
public:
  virtual ~ControlPlane() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Sends `mine` to every rank and returns all ranks' texts in rank order. Collective: every rank
  /// must make the same number of calls. Blocks; fails with TimedOut, naming the missing rank, if a
  /// rank does not make the call.
  virtual Result<std::vector<std::string>> allGather(std::string mine) = 0;
  /// Commits a step of the job on all ranks or on none. Returns Ok on every rank if every rank made
  /// the call before any rank failed, even if a rank fails later; otherwise returns the root cause
  /// on every rank. Collective; blocks. A run's results are valid only after commit() returns Ok.
  virtual Status commit() = 0;
  /// Reports that this rank's host thread is making progress, so that the rank is not considered
  /// stuck. Cheap.
  virtual void tick() {}
  /// Announces this rank's next collective call; `program` is the Plan::firstCommand of its
  /// program, if any. The job fails early if another rank makes a different call instead. Cheap.
  virtual void noteCall([[maybe_unused]] JobCall call, [[maybe_unused]] uint32_t program) {}
  /// Announces that this rank will no longer call noteCall() for every run, because callers' graphs
  /// contain runs. The job then stops comparing calls.
  virtual void noteUnseenRuns() {}
  /// Returns the cause if the job has failed, otherwise Ok. Never blocks. Callable from any thread.
  virtual Status failure() const = 0;
  /// Fails the job with `cause` unless it has failed already, and unblocks all ranks' blocked
  /// calls. Callable from any thread.
  virtual void abort(const Status &cause) = 0;
};

} // namespace braid
