//===- api/autotune/schedule_choice.h - the chosen schedule, and the reason -------------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "runtime/plan/plan.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct JudgedCandidate {
  Candidate candidate;     ///< for the chosen stage
  Configurations schedule; ///< that of the whole fusion
  /// Plans that represent all ranks. Candidates with equal lowerings share them. Null if there was
  /// no search.
  std::shared_ptr<const std::vector<Plan>> plans = nullptr;
  double predictedUs = 0;              ///< predicted time of a run in a burst
  size_t commands = 0;                 ///< commands of a rank in a run: fewer commands are simpler
  std::string family = {};             ///< see familyOf()
  double worstCase = 1;                ///< see worstCase() in candidates.h
  std::optional<double> singleUs = {}; ///< measured time of a single run, if timed
  std::optional<double> burstUs = {};  ///< measured time of a run in a burst, if timed

  /// The measured time by which candidates are compared.
  double countedUs() const { return *burstUs * worstCase; }
};

struct ScheduleChoice {
  /// The chosen candidate first, then the other timed ones in the order of timeCandidates(), then
  /// the rest, the best prediction first. Times are multiplied by worstCase before they are
  /// compared.
  std::vector<JudgedCandidate> candidates;
  size_t finalists = 0; ///< candidates that were timed again in rounds
  size_t rounds = 0;    ///< rounds in which each finalist was timed
  double seconds = 0;   ///< duration of all trials
  std::string fusion;   ///< the name of the fusion
  std::string stage;    ///< a tensor of the chosen stage; empty if there is only one stage
  std::vector<ScheduleChoice> before; ///< for several stages: the earlier choices
  int64_t ranks = 0;
  std::string reason;
  std::string source; ///< where the model of the machine, or a known choice, is from
  // Set if there was no search; then `candidates` has only the chosen one.
  bool isKnown = false;   ///< an earlier job chose it
  bool isDefault = false; ///< the table of defaults chose it

  const Configurations &best() const { return candidates.front().schedule; }
  /// The number of timed candidates.
  size_t timed() const;
};

/// Explains to users why the first candidate was chosen. `choice` must have at least one.
std::string reasonFor(const ScheduleChoice &choice);

/// Returns a table for users of the timed candidates and of the `next` best predicted ones, with
/// the choice and its reason, preceded by the tables of the earlier choices.
std::string explain(const ScheduleChoice &choice, size_t next = 5);

} // namespace braid
