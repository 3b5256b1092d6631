//===- api/autotune/schedule_choice.h - the chosen schedule, and the reason -------------------===//
#pragma once

#include "api/autotune/candidates.h"
#include "runtime/plan/plan.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct JudgedCandidate {
  Candidate candidate;     ///< for the chosen stage
  Configurations schedule; ///< that of the whole fusion
  /// Plans that represent all ranks. Candidates with equal lowerings share them.
  std::shared_ptr<const std::vector<Plan>> plans = nullptr;
  double predictedUs = 0;             ///< predicted time of a run in a burst
  std::optional<double> burstUs = {}; ///< measured time of a run in a burst, if timed
};

/// The candidates for one stage, and their trials.
struct StageTrials {
  std::string stage = {}; ///< a tensor of the stage; empty if there is only one stage
  /// The chosen candidate first, then the other timed ones in the order of timeCandidates(), then
  /// the rest.
  std::vector<JudgedCandidate> candidates = {};
  size_t finalists = 0; ///< candidates that were timed again in rounds
  size_t rounds = 0;    ///< rounds in which each finalist was timed
  double seconds = 0;   ///< duration of the trials

  const JudgedCandidate &best() const { return candidates.front(); }
  /// The number of timed candidates.
  size_t timed() const;
  /// Explains to users why the first candidate was chosen.
  std::string reason() const;
};

struct ScheduleChoice {
  std::string fusion; ///< its name
  int64_t ranks = 0;
  Configurations schedule; ///< the chosen one
  std::string reason;
  std::string source; ///< where the model of the machine, or a known choice, is from
  std::vector<StageTrials> stages = {}; ///< in order; empty if there was no search
  /// Without a search: "known" if an earlier job chose, or "default".
  std::string origin = {};
};

/// Returns a table for users of the timed candidates and of the `next` others of each stage, with
/// the choice and its reason.
std::string explain(const ScheduleChoice &choice, size_t next = 5);

} // namespace braid
