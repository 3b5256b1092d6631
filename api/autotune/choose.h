//===- api/autotune/choose.h - how to run a fusion fastest ------------------------------------===//
//
// Candidates are lowered and specialised like any other program; a simulator predicts each from a
// model of the machine that was measured on the ranks of the job, and the few best are then timed
// themselves (contest.h). So a wrong prediction costs a little time here,
// and no wrong choice among those.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/schedule_choice.h"
#include "api/calibrate/job_model.h"
#include "api/timing/plan_timer.h"

namespace braid {

/// Modes that `given` has are not varied either. Without transfer modes: all that are worth trials
/// and that the device offers.
struct ChooseOptions : JobModelOptions {
  /// Choices of the user, which are not varied.
  CompileOptions given;
  /// The number of candidates to time, without a time limit; 0: the prediction alone decides.
  /// Empty: as many as there is time for, among those predicted to be as fast as the best within
  /// the error of predictions.
  std::optional<int64_t> timed = {};
  /// Time limit for trials: none is begun that would end later, and the best so far is chosen.
  /// Measurements that the model needs come before the trials and are not included. 0, without
  /// `timed`: nothing is measured. Then the best is what was measured here for the nearest sizes;
  /// or for several stages, if a model of the machine is kept, what it predicts to be the fastest;
  /// or else the default of default_schedules.h.
  double seconds = 2;
  /// Takes the choice of an earlier job for the same question, if it had at least as much time.
  bool usesKnown = false;
};

/// The options of a job on `backend`, with where it keeps its model: the same for all that it does.
ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses,
                            CompileOptions given = {});

/// Decides for all ranks: collective, blocks, the same choice everywhere. `text` holds the fusion,
/// `name` is its file. BadInput if it holds a program already; what cannot be lowered at all fails
/// as compile() does.
Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer);

/// The same by all ranks of `cluster`, whose processes make this call. Other programs may be
/// prepared there; what was issued of them is done first. `trials` gets the Plans that are timed,
/// of each rank that lives here; if this fails, it outlives the cluster. `barrier` as PlanTimer has
/// it.
Result<ScheduleChoice> choose(Cluster &cluster, const std::string &name, const std::string &text,
                              const ChooseOptions &options, std::vector<TimedPlans> &trials,
                              const Barrier &barrier);

} // namespace braid
