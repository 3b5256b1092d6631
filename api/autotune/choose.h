//===- api/autotune/choose.h - chooses the fastest schedule for a fusion ----------------------===//
//
// Candidates are lowered and specialized like any other program. A simulator predicts their times
// from a machine model that was measured on the job's ranks, and the candidates with the best
// predictions are then timed (trials.h). A wrong prediction therefore costs some time, but does not
// select a slow candidate.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"
#include "api/calibrate/job_model.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Modes that `given` sets are not varied. An empty list of transfer modes selects all modes that
/// the device supports and that are worth trying.
struct ChooseOptions : JobModelOptions {
  /// The user's choices, which are not varied.
  CompileOptions given;
  /// The number of candidates to time, regardless of the time budget; if 0, predictions alone
  /// decide. If empty, times as many candidates as the time budget allows, among those whose
  /// predictions are within the prediction error of the best one.
  std::optional<int64_t> timed = {};
  /// The time budget for trials, in seconds: no trial starts that would exceed the budget, and the
  /// best candidate so far is chosen. Measurements for the machine model precede the trials and do
  /// not count. If 0 and `timed` is empty, nothing is measured: uses the choice for the nearest
  /// measured sizes, or, for several stages and a stored model, the best prediction, or else the
  /// default from default_schedules.h.
  double seconds = 2;
};

/// Returns the options for a job on `backend`, including the location of its stored model.
ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses,
                            CompileOptions given = {});

/// Chooses a schedule for all ranks. Collective; blocks. All ranks receive the same choice. Reuses
/// the choice of an earlier job with the same fusion and options, and at least the same time
/// budget. `text`, read from file `name`, contains the fusion. Returns BadInput if `text` is a
/// program, and fails as compile() does if no candidate can be lowered.
Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer);

/// Chooses a schedule on all ranks of `cluster`; all of its processes must make this call. First
/// waits for issued runs of other programs. Adds the timed Plans of each rank in this process to
/// `trials`, which must outlive the cluster if the call fails. See PlanTimer for `barrier`.
Result<ScheduleChoice> choose(Cluster &cluster, const std::string &name, const std::string &text,
                              const ChooseOptions &options, std::vector<TimedPlans> &trials,
                              const Barrier &barrier);

} // namespace braid
