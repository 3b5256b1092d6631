//===- api/autotune/schedule_choice.h - what was chosen, and why ------------------------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "runtime/plan/plan.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

struct JudgedCandidate {
  Candidate candidate;     ///< for the stage that was chosen for
  Configurations schedule; ///< the whole fusion's
  /// The Plans that stand for all ranks. Candidates that are lowered the same share them. Null for
  /// a choice without a search.
  std::shared_ptr<const std::vector<Plan>> plans = nullptr;
  double predictedUs = 0;              ///< predicted time of a run in a burst
  size_t commands = 0;                 ///< commands of a rank in a run: the fewer, the simpler
  std::string family = {};             ///< see familyOf()
  double worstCase = 1;                ///< see worstCase() in candidates.h
  std::optional<double> singleUs = {}; ///< measured of a run alone, if it was timed
  std::optional<double> burstUs = {};  ///< measured of what is predicted

  /// The measured time that decides.
  double countedUs() const { return *burstUs * worstCase; }
};

struct ScheduleChoice {
  /// The chosen one first; then the others that were timed, in the order of timeCandidates(); then
  /// all others, the best predicted first. Times are multiplied by worstCase before they are
  /// compared.
  std::vector<JudgedCandidate> candidates;
  size_t finalists = 0; ///< candidates that were timed again, in turns
  size_t rounds = 0;    ///< turns of each finalist
  double seconds = 0;   ///< that all trials took
  std::string fusion;   ///< its name
  std::string stage;    ///< a tensor of the stage that was chosen for; empty: there is only one
  std::vector<ScheduleChoice> before; ///< for a fusion of several stages: what led here
  int64_t ranks = 0;
  std::string reason;
  std::string source; ///< where the model of the machine is from, or the choice, if it is known
  // Chosen without a search, so only the best candidate is here:
  bool isKnown = false;   ///< by an earlier job
  bool isDefault = false; ///< by the table of defaults

  const Configurations &best() const { return candidates.front().schedule; }
  /// The number of timed candidates.
  size_t timed() const;
};

/// Why the first was chosen, for people. `choice` has at least one.
std::string reasonFor(const ScheduleChoice &choice);

/// The table of those that were timed and of the `next` best predicted, with the choice and its
/// reason, for people; before it those of what led to the choice.
std::string explain(const ScheduleChoice &choice, size_t next = 5);

} // namespace braid
