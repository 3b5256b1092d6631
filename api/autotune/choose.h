//===- api/autotune/choose.h - chooses the fastest schedule of a fusion -----------------------===//
//
// Candidates are lowered and specialised like any other program. A simulator predicts their times
// from a model of the machine that was measured on the ranks of the job, and the best few are then
// timed (trials.h). A wrong prediction therefore costs some time, but does not select a slow
// candidate.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"
#include "api/calibrate/job_model.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Modes that `given` sets are not varied. An empty list of transfer modes means all modes that the
/// device offers and that are worth trials.
struct ChooseOptions : JobModelOptions {
  /// The user's choices, which are not varied.
  CompileOptions given;
  /// The number of candidates to time, without a time limit; if 0, the prediction alone decides. If
  /// empty, times as many candidates as the time limit allows, among those whose predictions are
  /// within the prediction error of the best.
  std::optional<int64_t> timed = {};
  /// The time limit for trials, in seconds: no trial starts that would end later, and the best so
  /// far is chosen. Measurements for the model precede the trials and are not included. If 0 and
  /// `timed` is empty, nothing is measured: the choice is that for the nearest measured sizes, or,
  /// for several stages and a stored model, the prediction, or else the default of
  /// default_schedules.h.
  double seconds = 2;
};

/// Returns the options of a job on `backend`, including the place of its stored model.
ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses,
                            CompileOptions given = {});

/// Chooses a schedule for all ranks. Collective and blocking; all ranks get the same choice. Uses
/// the choice of an earlier job for the same question if that job had at least as much time.
/// `text` contains the fusion, and `name` is its file. Returns BadInput if `text` is a program;
/// fails like compile() if no candidate can be lowered.
Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer);

/// Chooses by all ranks of `cluster`, whose processes make this call. Waits for issued runs of
/// other programs first. The timed Plans of each rank in this process are added to `trials`, which
/// must outlive the cluster if the call fails. `barrier` is that of PlanTimer.
Result<ScheduleChoice> choose(Cluster &cluster, const std::string &name, const std::string &text,
                              const ChooseOptions &options, std::vector<TimedPlans> &trials,
                              const Barrier &barrier);

} // namespace braid
