//===- api/ranks/rank_summary.h - the results of one rank's runs ------------------------------===//
#pragma once

#include "api/dtype.h"
#include "api/status.h"
#include "runtime/execute/trace.h"

namespace braid {

/// One rank's part of a RunReport.
struct RankSummary {
  double runSeconds = 0;
  std::vector<uint64_t> digests; ///< one for each output, over all runs
  std::vector<Span> spans;       ///< all of one Plan; encode() omits `plan` from their tags

  /// Encodes the summary for ranks in other processes on machines of the same architecture.
  std::string encode() const;
  /// Decodes a summary of runs of `plan`. Returns BadInput if encode() did not produce `bytes`.
  static Result<RankSummary> decode(llvm::StringRef bytes, const Plan &plan);
};

/// Writes `count` random numbers in [-1, 1) that use the full precision of `dtype`, so that a sum
/// of their products depends on the order of additions.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

} // namespace braid
