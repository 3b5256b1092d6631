//===- tools/bench/worker/answer.h - what a worker says about one row -------------------------===//
//
// A worker may be anybody's program, and its libraries may print what they like.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace braid::tools {

/// Whether a message is the answer to request `id`.
bool answers(const nlohmann::json &message, uint64_t id);

/// What a worker says about one row.
struct Answer {
  std::vector<double> samples; ///< microseconds, one or more, unless there is a failure
  std::string failure;
  std::vector<double> bursts; ///< microseconds of a run in each; may be empty
  std::string choice;         ///< of `auto`: what it was; may be empty
  /// Of a row that was refused or stood still, why, as an exit code; else PeerFailed.
  StatusCode code = StatusCode::PeerFailed;
  /// BadInput if it says neither.
  static Result<Answer> from(const nlohmann::json &message);
};

} // namespace braid::tools
