//===- api/launch/rank_summary.h - what each rank has to say when its runs are done -----------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/trace.h"

namespace braid {

/// One rank's part of a RunReport.
struct RankSummary {
  double runSeconds = 0;
  int64_t elementsCompared = 0;
  int64_t clockErrorNs = 0;           ///< of the spans' times: see CommonClock
  std::vector<Span> spans = {};       ///< of one Plan; their tags' `plan` is not passed on
  std::vector<uint64_t> digests = {}; ///< of a reproducible run: of each output, over all runs

  /// Bytes, for ranks in other processes, of machines of one kind.
  std::string encode() const;
  /// The spans are of `plan`. BadInput if `bytes` is not what encode() makes of such spans.
  static Result<RankSummary> decode(const std::string &bytes, const Plan &plan);
};

} // namespace braid
