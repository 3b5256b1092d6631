//===- runtime/execute/control_plane.h - how a rank meets the others --------------------------===//
#pragma once

#include "api/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// Added to a time of this rank's clock, `offsetNs` gives the time of a clock that all ranks of the
/// job share. It is right to within `errorNs`, which is 0 if all ranks are on one host.
struct CommonClock {
  int64_t offsetNs = 0, errorNs = 0;
};

/// The collective calls of a job, which all ranks make in one order.
enum class JobCall : uint8_t {
  None,
  Run, ///< a run of a program, in which ranks do not meet; they do in all other calls
  Prepare,
  Choose,
  GiveBack,
  Commit,
  Close,
};

/// One rank's view of its job: the other ranks, their texts, and whether a step counts. Ranks may
/// be threads or processes; only the implementation differs. Moves no data of programs.
class ControlPlane {
public:
  virtual ~ControlPlane() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Gives `mine` to every rank and returns all ranks' texts in rank order. Collective: every rank
  /// calls it the same number of times. Blocks; TimedOut if some rank does not come, naming it.
  /// Equivalent to: MPI_Allgatherv
  virtual Result<std::vector<std::string>> allGather(std::string mine) = 0;
  /// Ends a step of the job, for all ranks or for none: Ok on every rank, whatever happens later,
  /// if every rank came here before any failed; otherwise the first cause, on every rank.
  /// Collective; blocks. What a run computed counts only when this has said Ok.
  virtual Status commit() = 0;
  /// Says that this rank's host thread makes progress in its own code, so that it is not taken for
  /// stuck. Cheap.
  virtual void tick() {}
  /// This rank makes its next call, of a program that is numbered as Plan::firstCommand, if any.
  /// The job fails soon if another rank makes another one in its place. Cheap.
  virtual void noteCall([[maybe_unused]] JobCall call, [[maybe_unused]] uint32_t program) {}
  /// From now on the rank has runs that nobody notes: in graphs of the caller's. Then calls are not
  /// compared.
  virtual void noteUnseenRuns() {}
  /// As it is known by now.
  virtual CommonClock commonClock() const { return {}; }
  /// The cause of the job's failure as it is known by now, or Ok. Never blocks. Any thread.
  virtual Status failure() const = 0;
  /// Makes every blocked call of every rank return `cause`, unless one failed before. Any thread.
  virtual void abort(const Status &cause) = 0;
};

} // namespace braid
