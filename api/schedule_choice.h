//===- api/schedule_choice.h - what was chosen, and why ---------------------------------------===//
#pragma once

#include "api/candidate.h"

#include <limits>

namespace braid {

struct JudgedCandidate {
  Candidate candidate;
  double predictedUs = 0;
  std::optional<double> measuredUs = {};

  /// Of the prediction, as a part of what was measured; nothing if nothing was.
  std::optional<double> error() const;
};

struct ScheduleChoice {
  /// The chosen one first; then those that were timed, the fastest first; then the others as they
  /// were predicted.
  std::vector<JudgedCandidate> candidates;
  std::string fusion; ///< its name
  int64_t ranks = 0;
  std::string reason;
  std::string source; ///< where the model of the machine is from

  const Candidate &best() const { return candidates.front().candidate; }
  /// Mean of |error()| over those that were timed; 0 if none was.
  double meanError() const;
};

/// Why the first of `candidates` was chosen, for people. At least one, in a ScheduleChoice's order.
std::string reasonFor(llvm::ArrayRef<JudgedCandidate> candidates);

/// The table of the candidates, the best `most` of them, with the choice and its reason, for
/// people.
std::string explain(const ScheduleChoice &choice, size_t most = std::numeric_limits<size_t>::max());

} // namespace braid
