//===- api/autotune/choose.h - chooses the fastest schedule for a fusion ----------------------===//
//
// Candidates are lowered and specialized like any other program. A simulator predicts their times
// from a machine model measured on the job's ranks; the candidates with the best predictions are
// then timed (trials.h). A wrong prediction thus wastes a trial, but does not select a slow
// candidate.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/trials.h"
#include "api/calibrate/job_model.h"

namespace braid {

/// Options for choose(). Modes set in `given` are not varied. If `transferModes` is empty, tries
/// all transfer modes that the device supports and that are worth trying.
struct ChooseOptions : JobModelOptions {
  /// The user's choices, which are not varied.
  CompileOptions given;
  /// The number of candidates to time, regardless of the time budget; if 0, only predictions are
  /// used. If empty, times as many candidates as the time budget allows, among those whose
  /// predictions are within the prediction error of the best prediction.
  std::optional<int64_t> timed = {};
  /// The time budget for trials, in seconds. Trials that would exceed it are not started, and the
  /// best candidate so far is chosen. Measuring the machine model beforehand does not count toward
  /// the budget. If 0 and `timed` is empty, nothing is measured. choose() then returns the stored
  /// choice for similar sizes. If there is none, it returns the schedule with the best
  /// prediction, provided that there are several stages and a stored model, and otherwise the
  /// default from default_schedules.h.
  double seconds = 2;
};

struct ScheduleChoice {
  std::string fusion; ///< the fusion's name
  int64_t ranks = 0;
  Configurations schedule;
  std::string reason;
  std::string source;                   ///< origin of the machine model, or of a stored choice
  std::vector<StageTrials> stages = {}; ///< in order; empty if there was no search
  /// If there was no search: "known" if an earlier job made the choice, otherwise "default".
  std::string origin = {};
};

/// Returns a table for users. For each stage, it lists the timed candidates, the `next` candidates
/// with the best predictions among the others, and the choice with its reason.
std::string explain(const ScheduleChoice &choice, size_t next = 5);

/// Returns the options for a job on `backend`, including the location of its stored model.
ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses,
                            CompileOptions given = {});

/// Chooses one schedule for all ranks. Collective; blocks. Reuses the choice of an earlier job with
/// the same fusion and options and at least the same time budget. `text`, read from file `name`,
/// contains the fusion. Returns BadInput if `text` is a program, or the failure of compile() if no
/// candidate can be lowered.
Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer);

} // namespace braid
