//===- api/autotune/schedule_choice.h - the chosen schedule and the reason for it -------------===//
#pragma once

#include "api/autotune/candidates.h"
#include "runtime/plan/plan.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct JudgedCandidate {
  Candidate candidate;     ///< for a single stage
  Configurations schedule; ///< for the whole fusion
  /// Plans that represent all ranks, shared by candidates that differ only in their modes.
  std::shared_ptr<const std::vector<Plan>> plans = nullptr;
  double predictedUs = 0;             ///< predicted time of a run in a burst
  std::optional<double> burstUs = {}; ///< measured time of a run in a burst, if timed
};

/// The candidates for one stage, and their trials.
struct StageTrials {
  std::string stage = {}; ///< a tensor in the stage; empty if there is only one stage
  /// The chosen candidate, the other timed candidates as ordered by timeCandidates(), then the
  /// rest.
  std::vector<JudgedCandidate> candidates = {};
  size_t finalists = 0; ///< number of candidates timed again in rounds
  size_t rounds = 0;    ///< number of rounds that timed every finalist
  double seconds = 0;   ///< duration of the trials

  const JudgedCandidate &best() const { return candidates.front(); }
  /// Returns the number of timed candidates.
  size_t timed() const;
  /// Explains to the user why the first candidate was chosen.
  std::string reason() const;
};

struct ScheduleChoice {
  std::string fusion; ///< the fusion's name
  int64_t ranks = 0;
  Configurations schedule;
  std::string reason;
  std::string source;                   ///< origin of the machine model, or of a known choice
  std::vector<StageTrials> stages = {}; ///< in order; empty if there was no search
  /// If there was no search: "known" if an earlier job made the choice, otherwise "default".
  std::string origin = {};
};

/// Returns a table for users: for each stage, the timed candidates and the `next` best-predicted
/// others, with the choice and its reason.
std::string explain(const ScheduleChoice &choice, size_t next = 5);

} // namespace braid
